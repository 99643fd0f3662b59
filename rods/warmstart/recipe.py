"""How the shipped tiny policy is made, from nothing but the scripted world.

Supervised training on solved episodes of one and two requests teaches the format, the tools, how to copy and
when to ask back. Longer dialogues, with references across their turns, are left to reinforcement learning.
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

TOKENS = 3_600_000
REQUESTS = (1, 2)
"""Requests of an episode, each as likely as the other."""
_ONE_REQUEST_SHARE = 0.25
_DRILL_SHARE = 0.3

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
    """Single requests for the first quarter, copy drills among the episodes a little longer, then all."""
    single = episodes(tokenizer, rng, requests=(1,))
    short = episodes(tokenizer, rng, requests=REQUESTS)
    drills = copy_drills(tokenizer.get_vocab_size(), rng)
    chunk = 4 * BATCH_TOKENS
    opening, mingled = alternate(single, drills, chunk), alternate(short, drills, chunk)

    def rows(share: float) -> Iterator[Row]:
        if share < _ONE_REQUEST_SHARE:
            return opening
        return mingled if share < _DRILL_SHARE else short

    return rows


def _recorded(report: Report) -> Callable[[Progress], None]:
    return lambda progress: report(asdict(progress))
