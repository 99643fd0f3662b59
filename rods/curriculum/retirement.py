"""Retirement: variants that no longer teach leave the pool, originals never do (paper: buffer).

L1 burn-in drops variants that come out too hard, L2 drift those the policy has left behind or lost, L3 keeps
the highest φ within P_max, and stale removal those training never gets to. With `buffer.retire=false`
(ablation) only L3 remains.
"""

from __future__ import annotations

from collections.abc import Sequence

from rods.curriculum.events import GroupObserved, RetirementReason, TaskRetired
from rods.curriculum.observed import observed_records
from rods.curriculum.records import TaskRecord
from rods.curriculum.value import CurriculumState
from rods.curriculum.zones import phi

UNOBSERVED_PHI = 1.0
"""φ of a variant never observed, for capacity. Ours: unknown counts as best, so that it gets its trial."""


def after_step(
    state: CurriculumState, observed: Sequence[GroupObserved], step: int, epoch: int
) -> list[TaskRetired]:
    """Burn-in and drift among the variants observed in this step, in the order observed.

    The first `burn_in` observations retire a variant whose r̄ < α₋, and nothing else; after them, r̄ above
    drift_high retires it as mastered, below drift_low as too hard. Borders are inside.

    Args:
        state: with the groups of this step already applied.
        observed: the groups of this step.

    Raises:
        CurriculumError: a group that was not applied to the state at this step.
    """
    if not state.buffer.retire:
        return []
    retired = []
    for record, mean in observed_records(state, observed, step):
        reason = _drift(state, record, mean) if record.live_variant else None
        if reason is not None:
            retired.append(TaskRetired(step, epoch, record.id, reason, mean))
    return retired


def at_epoch_end(state: CurriculumState, step: int, epoch: int) -> list[TaskRetired]:
    """Stale variants, then those above P_max with the lowest φ; ties in φ keep the smaller id.

    A variant is stale when none of the last `stale_epochs` epochs, since it was injected, sampled it. Live
    variants may exceed P_max during an epoch, by what was injected at its start: pruning then compares
    observed φ instead of guessing before the trial.
    """
    live = sorted((state.tasks[task_id] for task_id in state.index.live), key=_worth)
    stale = [record for record in live if state.buffer.retire and _is_stale(record, state, epoch)]
    gone = {record.id for record in stale}
    kept = [record for record in live if record.id not in gone]
    pruned = kept[state.buffer.capacity :]
    return [_retired(record, RetirementReason.STALE, step, epoch) for record in stale] + [
        _retired(record, RetirementReason.CAPACITY, step, epoch) for record in pruned
    ]


def _drift(state: CurriculumState, record: TaskRecord, mean: float) -> RetirementReason | None:
    if record.statistics.count <= state.buffer.burn_in:
        return RetirementReason.BURN_IN if mean < state.boundary.alpha_low else None
    if mean > state.buffer.drift_high:
        return RetirementReason.DRIFT_MASTERED
    return RetirementReason.DRIFT_HARD if mean < state.buffer.drift_low else None


def _is_stale(record: TaskRecord, state: CurriculumState, epoch: int) -> bool:
    assert record.injected_epoch is not None
    # A variant that came back for a review was last sampled long before it entered.
    entered = record.readmitted_epoch or record.injected_epoch
    last = max(entered - 1, record.statistics.last_epoch or 0)
    return epoch - last >= state.buffer.stale_epochs


def _worth(record: TaskRecord) -> tuple[float, str]:
    mean = record.statistics.mean
    return -(UNOBSERVED_PHI if mean is None else phi(mean)), record.id


def _retired(record: TaskRecord, reason: RetirementReason, step: int, epoch: int) -> TaskRetired:
    return TaskRetired(step, epoch, record.id, reason, record.statistics.mean)
