"""How the shipped tiny policy is made, from nothing but the scripted world.

Supervised training on solved episodes of one request teaches the format, the tools, how to copy and when to
ask back. At its very end it meets dialogues of two requests, just long enough that the policy now and then
goes on after a first request; doing so reliably, longer dialogues and references across turns are left to
reinforcement learning.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from rods.errors import RodsError
from rods.warmstart import model as tiny
from rods.warmstart import tokenizer as bpe
from rods.warmstart.batches import Row, alternate, copy_drills, episodes
from rods.warmstart.supervised import BATCH_TOKENS, Progress, train

TOKENS = 5_500_000
DRILL_SHARE = 0.3
"""Of the budget: up to here, half of the tokens are copy drills, and what others say is learnt a little, too."""
SINGLE_SHARE = 0.94
"""Of the budget: up to here, every episode has one request; then half of them have two."""
OTHERS_AT_FIRST, OTHERS_THEN = 0.1, 0.01
"""Loss weights of what others say, where the policy's own tokens count 1. Names and results are chance: learning to
foretell them all the way costs what a small model has for its own words."""

Report = Callable[[dict[str, Any]], None]


class RecipeError(RodsError):
    """A budget or threads that no training can have."""


def run(out: Path, tokens: int, seed: int, threads: int, report: Report) -> tuple[int, int]:
    """Fit the tokenizer, train, write the checkpoint (model, tokenizer, configuration) to `out`.

    The result depends on the budget, the seed and the arithmetic of the machine, not on its speed.

    Args:
        out: a folder; made if missing, files in it are replaced.
        tokens: budget in tokens with a loss weight.
        seed: of everything random.
        threads: torch's CPU threads.
        report: receives a JSON-able record now and then: the fields of `Progress`.

    Returns:
        number of parameters (tied ones once) and of tokens in the vocabulary.

    Raises:
        RecipeError: a negative budget, or no thread.
    """
    if tokens < 0 or threads < 1:
        raise RecipeError(
            f"warm start: expected a budget of 0 or more tokens and at least one thread, found {tokens} and {threads}"
        )
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = bpe.fit(seed)
    bpe.save(tokenizer, out, tiny.MAX_LENGTH)
    model = tiny.new(
        tokenizer.get_vocab_size(), bpe.token_id(tokenizer, bpe.END), bpe.token_id(tokenizer, bpe.PAD)
    )
    rng = random.Random(f"warm start {seed}")
    train(model, curriculum(tokenizer, rng), tokens, rng, _recorded(report))
    tiny.export(model, out)
    return model.num_parameters(), tokenizer.get_vocab_size()


def curriculum(tokenizer: Tokenizer, rng: random.Random) -> Callable[[float], Iterator[Row]]:
    """What is read at a share of the budget: single requests among copy drills, single requests, then also pairs."""
    first = episodes(tokenizer, rng, requests=(1,), others=OTHERS_AT_FIRST)
    mingled = alternate(first, copy_drills(tokenizer.get_vocab_size(), rng), 4 * BATCH_TOKENS)
    single = episodes(tokenizer, rng, requests=(1,), others=OTHERS_THEN)
    pairs = episodes(tokenizer, rng, requests=(1, 2), others=OTHERS_THEN)

    def rows(share: float) -> Iterator[Row]:
        if share < DRILL_SHARE:
            return mingled
        return single if share < SINGLE_SHARE else pairs

    return rows


def _recorded(report: Report) -> Callable[[Progress], None]:
    return lambda progress: report(asdict(progress))
