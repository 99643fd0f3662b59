"""The two stages that make the shipped tiny policy, from nothing but the scripted world.

Stage 1 teaches the format, the tools and how to copy, on solved episodes. Stage 2 goes on with
demonstrations of mixed quality, which leaves reinforcement learning mastered, boundary and hard tasks to
find.
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
from rods.warmstart.batches import Row, alternate, copy_drills, mixed_episodes, solved_episodes
from rods.warmstart.supervised import BATCH_TOKENS, Progress, train

STAGE1_TOKENS = 2_700_000
STAGE2_TOKENS = 2_700_000
_ONE_TURN_SHARE = 0.25
_DRILL_SHARE = 0.3

Report = Callable[[dict[str, Any]], None]


class RecipeError(RodsError):
    """Budgets or threads that no training can have."""


def run(
    out: Path, stage1_tokens: int, stage2_tokens: int, seed: int, threads: int, report: Report
) -> tuple[int, int]:
    """Fit the tokenizer, train both stages, write the checkpoint (model, tokenizer, configuration) to `out`.

    The result depends on the budgets, the seed and the arithmetic of the machine, not on its speed.

    Args:
        out: a folder; made if missing, files in it are replaced.
        stage1_tokens: budget of stage 1 in tokens with a loss weight.
        stage2_tokens: budget of stage 2.
        seed: of everything random.
        threads: torch's CPU threads.
        report: receives a JSON-able record now and then: stage and the fields of `Progress`.

    Returns:
        number of parameters (tied ones once) and of tokens in the vocabulary.

    Raises:
        RecipeError: a negative budget, or no thread.
    """
    if min(stage1_tokens, stage2_tokens) < 0 or threads < 1:
        raise RecipeError(
            f"warm start: expected budgets of 0 or more tokens and at least one thread, found {stage1_tokens}, "
            f"{stage2_tokens} and {threads}"
        )
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = bpe.fit(seed)
    bpe.save(tokenizer, out, tiny.MAX_LENGTH)
    model = tiny.new(
        tokenizer.get_vocab_size(), bpe.token_id(tokenizer, bpe.END), bpe.token_id(tokenizer, bpe.PAD)
    )
    stages = (("solved", solved_stage, stage1_tokens), ("mixed", mixed_stage, stage2_tokens))
    for name, stage, tokens in stages:
        rng = random.Random(f"warm start {name} {seed}")
        train(model, stage(tokenizer, rng), tokens, rng, _tagged(report, name))
    tiny.export(model, out)
    return model.num_parameters(), tokenizer.get_vocab_size()


def solved_stage(tokenizer: Tokenizer, rng: random.Random) -> Callable[[float], Iterator[Row]]:
    """Stage 1: one-turn episodes for the first quarter, copy drills among them a little longer, then all."""
    one_turn = solved_episodes(tokenizer, rng, turns=1)
    episodes = solved_episodes(tokenizer, rng)
    drills = copy_drills(tokenizer.get_vocab_size(), rng)
    chunk = 4 * BATCH_TOKENS
    opening, mingled = alternate(one_turn, drills, chunk), alternate(episodes, drills, chunk)

    def rows(share: float) -> Iterator[Row]:
        if share < _ONE_TURN_SHARE:
            return opening
        return mingled if share < _DRILL_SHARE else episodes

    return rows


def mixed_stage(tokenizer: Tokenizer, rng: random.Random) -> Callable[[float], Iterator[Row]]:
    """Stage 2: demonstrations of mixed quality throughout."""
    episodes = mixed_episodes(tokenizer, rng)
    return lambda share: episodes


def _tagged(report: Report, stage: str) -> Callable[[Progress], None]:
    return lambda progress: report({"stage": stage, **asdict(progress)})
