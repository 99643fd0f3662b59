"""Summaries and runs of a small study, made up."""

from __future__ import annotations

from typing import Any

import msgspec

from benchmarks.study.summary import (
    Cost,
    Identity,
    Latency,
    Mechanism,
    Overlap,
    Point,
    PoolRow,
    Stretch,
    Summary,
    Zone,
)

TASKS = 8


def point(trajectories: int, sampled: float, greedy: float, cpu: float | None = None) -> Point:
    """An evaluation; a rollout takes a second unless `cpu` says what all of them took."""
    spent = float(trajectories) if cpu is None else cpu
    return Point(trajectories // 96, trajectories, 50 * trajectories, spent, sampled, greedy, sampled, greedy)


def summary(arm: str = "static", seed: int = 0, gain: float = 0.2, **changes: Any) -> Summary:
    """A run that rises by `gain` over 192 rollouts, on `TASKS` held-out tasks."""
    plain = Summary(
        arm=arm,
        seed=seed,
        identity=Identity(f"settings of {arm}", "policy", f"training {seed}", "held-out"),
        digest=f"journal of {arm}, {seed}",
        commit="abc",
        machine="a machine, 2 cores",
        attempts=1,
        cost=Cost(wall=300.0, load=2.0, training=192.0, synthesis=3.0, evaluation=20.0),
        curve=[
            point(0, 0.4, 0.5),
            point(96, 0.4 + gain / 2, 0.5 + gain / 2),
            point(192, 0.4 + gain, 0.5 + gain),
        ],
        start_sampled=[1.0] * (TASKS // 2) + [0.0] * (TASKS // 2),
        start_greedy=[1.0] * (TASKS // 2) + [0.0] * (TASKS // 2),
        sampled=[1.0] * (TASKS // 2) + [gain] * (TASKS // 2),
        greedy=[1.0] * (TASKS // 2) + [gain / 2] * (TASKS // 2),
        by_kind={"create": (0.4, 0.5, 0.6, 0.7), "view": (0.5, 0.6, 0.7, 0.8)},
        zero_variance=0.4,
        mechanism=Mechanism(
            trained=[Stretch(1, 0.5, 0.3, 0.9, 0.5), Stretch(2, 0.5 + 2 * gain, 0.5, 0.1, 0.5 + gain)],
            zones={"hard": Zone(4, 0.01), "boundary": Zone(8, 0.1), "mastered": Zone(4, 0.02)},
            first_means=[0.1, 0.5, 0.6, 0.9] if arm != "static" else [],
            band=(0.2, 0.85),
            pool=[PoolRow(1, 60, 0, 0), PoolRow(2, 60, 4, 1)],
            latency=Latency(4, 1.0, 3.0, 2.0) if arm != "static" else Latency(0, 0.0, 0.0, 0.0),
            funnel=dict.fromkeys(
                (
                    "seeds emitted",
                    "attempts failed",
                    "variants arrived",
                    "variants trained on",
                    "variants retired",
                ),
                4,
            ),
            failures={"duplicate_func": 2},
        ),
        overlap=Overlap(6, [], []),
    )
    return msgspec.structs.replace(plain, **changes)
