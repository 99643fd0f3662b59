"""The tiny policy's tokenizer: byte-level BPE of 1,536 tokens, fitted to scripted conversations.

Where words are cut decides what a 1M-parameter policy can copy. Digits stand alone; `_word` and `.ext`
are single pieces (cutting `_` and `.` off halved the reward), and so are the names of functions, since every
prompt lists them; the chat tags and the fixed parts of a call are tokens of their own.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from rods.simulation.functions import documentation
from rods.tasks.scripted import generate
from rods.tasks.scripted_states import CLASSES
from rods.warmstart.demonstrations import solved
from rods.warmstart.transcript import END, pieces

PAD = "<|endoftext|>"
_TAGS = [PAD, "<|im_start|>", END, "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
_FUNCTIONS = sorted((name for name in documentation(CLASSES) if "_" in name), key=len, reverse=True)
_CALL_PARTS = ['{"name": "', '", "arguments": {']
# Name of a function, escaped newline, possessive, word with what leads it, digit, punctuation, white space, backslash.
_CUTS = rf" ?(?:{'|'.join(_FUNCTIONS)})|" r"\\n|'s|[ _.]?[A-Za-z]+|\d| ?[^\sA-Za-z\d\\]+|\s+|\\"
VOCABULARY = 1536
RESERVED = len(_TAGS) + len(_CALL_PARTS)
"""Ids below this are tags and parts of calls; those above are text."""


def fit(seed: int, *, vocabulary: int = VOCABULARY, episodes: int = 3000) -> Tokenizer:
    """Fit the merges to solved scripted episodes.

    Args:
        seed: of the episodes; equal seeds give equal tokenizers.
        vocabulary: number of tokens, at least 256 bytes plus the reserved ones.
        episodes: how many conversations to read.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_CUTS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(tag, special=True) for tag in _TAGS])
    tokenizer.add_tokens([AddedToken(part, special=False, normalized=False) for part in _CALL_PARTS])
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=_TAGS + _CALL_PARTS,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(_texts(seed, episodes), trainer)
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path, max_length: int) -> None:
    """Write tokenizer.json and the tokenizer_config.json that transformers and vLLM read."""
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": PAD,
        "model_max_length": max_length,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")


def token_id(tokenizer: Tokenizer, token: str) -> int:
    """The id of a token that the tokenizer is known to have."""
    found = tokenizer.token_to_id(token)
    assert found is not None, token
    return found


def _texts(seed: int, episodes: int) -> Iterator[str]:
    rng = random.Random(f"tokenizer {seed}")
    for _ in range(episodes):
        for piece in pieces(solved(generate(rng))):
            yield piece.text
