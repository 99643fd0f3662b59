"""Boundary detection: which tasks the policy solves sometimes, and which of them become seeds.

GRPO learns from disagreement within a group. A bounded reward's variance is at most μ(1−μ) (Popoviciu), so
the rewards training computes anyway rank the tasks, without extra inference (paper: boundary detection).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rods.curriculum.events import GroupObserved, SeedEmitted, seed_key
from rods.curriculum.records import TaskRecord
from rods.curriculum.state import excluded
from rods.curriculum.strategy import depth
from rods.curriculum.strategy.selection import SELECTIONS
from rods.curriculum.value import CurriculumState
from rods.curriculum.zones import phi


def select(
    state: CurriculumState, observed: Sequence[GroupObserved], step: int, epoch: int
) -> list[SeedEmitted]:
    """The seeds of one training step, best first (paper: boundary detection).

    Tasks, seeds or variants, as `boundary.selection` ranks them (the paper: of the groups observed in this step those
    in the boundary zone, by falling φ, ties by task id); outside the exclusion window of their root seed; one per root
    seed; up to the quota of each type (a type without a quota has none), up to M in all. Quotas left unused are not
    redistributed. With `boundary.depth_shift=adaptive` tasks from beside a dry boundary zone come last, and are asked
    for deeper or shallower variants.

    Args:
        state: with the groups of this step already applied.
        observed: the groups of this step.

    Raises:
        CurriculumError: a group that was not applied to the state at this step.
    """
    config = state.boundary
    chosen: list[SeedEmitted] = []
    used: Counter[str] = Counter()
    roots: set[str] = set()
    for record, shift in _candidates(state, observed, step):
        has_room = len(chosen) < config.max_seeds and used[record.type] < config.quotas.get(record.type, 0)
        if has_room and record.seed_id not in roots:
            chosen.append(_emission(record, step, epoch, shift))
            used[record.type] += 1
            roots.add(record.seed_id)
    return chosen


def _candidates(
    state: CurriculumState, observed: Sequence[GroupObserved], step: int
) -> list[tuple[TaskRecord, int]]:
    """The tasks outside their exclusion windows, best first, and how deep their variants shall be."""
    moved = depth.shift(state)
    ranked = [(record, 0) for record in SELECTIONS[state.boundary.selection].rank(state, observed, step)]
    ranked += [(record, moved) for record in depth.beside(state, observed, step, moved)]
    window = state.boundary.exclusion_steps
    return [
        (record, shift)
        for record, shift in ranked
        if not excluded(state.last_emitted.get(record.seed_id), step, window)
    ]


def _mean(record: TaskRecord) -> float:
    assert record.statistics.mean is not None
    return record.statistics.mean


def _emission(record: TaskRecord, step: int, epoch: int, shift: int) -> SeedEmitted:
    mean = _mean(record)
    key = seed_key(step, record.id)
    return SeedEmitted(step, epoch, record.id, record.seed_id, record.type, mean, phi(mean), key, shift)
