"""Boundary detection: which tasks the policy solves sometimes, and which of them become seeds.

GRPO learns from disagreement within a group. A bounded reward's variance is at most μ(1−μ) (Popoviciu), so
the rewards training computes anyway rank the tasks, without extra inference (paper: boundary detection).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence

from rods.curriculum.errors import CurriculumError
from rods.curriculum.events import GroupObserved, SeedEmitted, seed_key
from rods.curriculum.records import TaskRecord
from rods.curriculum.state import excluded
from rods.curriculum.value import CurriculumState
from rods.curriculum.zones import Zone, phi, zone


def select(
    state: CurriculumState, observed: Sequence[GroupObserved], step: int, epoch: int
) -> list[SeedEmitted]:
    """The seeds of one training step, best first (paper: boundary detection).

    Boundary tasks among the groups observed in this step, seeds or variants; outside the exclusion window of
    their root seed; by falling φ, ties by task id; one per root seed; up to the quota of each type (a type
    without a quota has none), up to M in all. Quotas left unused are not redistributed.

    With `boundary.selection=random` (ablation: random seeds) any observed task may be chosen, in an order drawn
    from the run's seed; exclusion and quotas hold as before.

    Args:
        state: with the groups of this step already applied.
        observed: the groups of this step.

    Raises:
        CurriculumError: a group that was not applied to the state at this step.
    """
    config = state.boundary
    ranked = _at_random if config.selection == "random" else _by_variance
    candidates = [
        record
        for record in ranked(state, observed, step)
        if not excluded(state.last_emitted.get(record.seed_id), step, config.exclusion_steps)
    ]
    chosen: list[TaskRecord] = []
    used: Counter[str] = Counter()
    roots: set[str] = set()
    for record in candidates:
        has_room = len(chosen) < config.max_seeds and used[record.type] < config.quotas.get(record.type, 0)
        if has_room and record.seed_id not in roots:
            chosen.append(record)
            used[record.type] += 1
            roots.add(record.seed_id)
    return [_emission(record, step, epoch) for record in chosen]


def _by_variance(state: CurriculumState, observed: Sequence[GroupObserved], step: int) -> list[TaskRecord]:
    """Observed boundary tasks by falling φ, ties by task id."""
    found = [
        record
        for record, mean in observed_records(state, observed, step)
        if zone(mean, state.boundary) is Zone.BOUNDARY
    ]
    return sorted(found, key=lambda record: (-phi(_mean(record)), record.id))


def _at_random(state: CurriculumState, observed: Sequence[GroupObserved], step: int) -> list[TaskRecord]:
    """All observed tasks, in an order that is a function of (run seed, step, task ids)."""

    def drawn(record: TaskRecord) -> bytes:
        return hashlib.sha256(f"{state.seed}:{step}:{record.id}".encode()).digest()

    return sorted((record for record, _ in observed_records(state, observed, step)), key=drawn)


def observed_records(
    state: CurriculumState, observed: Sequence[GroupObserved], step: int
) -> Iterator[tuple[TaskRecord, float]]:
    """The records of the groups observed in a step with their mean rewards.

    Raises:
        CurriculumError: a group that was not applied to the state at this step.
    """
    for group in observed:
        record = state.tasks.get(group.task_id)
        if record is None or record.statistics.mean is None or record.statistics.last_step != step:
            raise CurriculumError(
                f"task {group.task_id!r}: expected its group of step {step} in the state, found step "
                f"{record and record.statistics.last_step}; fold the observations first, then decide"
            )
        yield record, record.statistics.mean


def _mean(record: TaskRecord) -> float:
    assert record.statistics.mean is not None
    return record.statistics.mean


def _emission(record: TaskRecord, step: int, epoch: int) -> SeedEmitted:
    mean = _mean(record)
    key = seed_key(step, record.id)
    return SeedEmitted(step, epoch, record.id, record.seed_id, record.type, mean, phi(mean), key)
