"""Rollouts by what became of their user turns."""

from __future__ import annotations

from collections.abc import Sequence

from rods.rollout.episode import Rollout
from rods.simulation.checker import TurnVerdict
from rods.simulation.session import Outcome


def episode(passed: Sequence[bool], turns: int, tokens: Sequence[int]) -> Rollout:
    """An episode that closed `len(passed)` of `turns` turns; `tokens[t]` tokens sampled in turn t, one read between."""
    marks = [mark for count in tokens for mark in (0, *[1] * count)]
    places = [place for turn, count in enumerate(tokens) for place in (0, *[turn] * count)]
    verdicts = tuple(TurnVerdict(each, True, True) for each in passed)
    return Rollout(
        task_id="t",
        index=0,
        token_ids=tuple(range(len(marks))),
        mask=tuple(marks),
        logprobs=(0.0,) * len(marks),
        turns=tuple(places),
        reward=sum(passed) / turns,
        outcome=Outcome(verdicts, (), turns, 0),
        policy_version=0,
        finish="finished",
    )
