"""The pool in a few numbers, for the console, the metrics file and the status command."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rods.curriculum.boundary import Zone, zone
from rods.curriculum.records import CurriculumState, TaskStatus
from rods.tasks.model import Origin


def summary(state: CurriculumState) -> dict[str, Any]:
    """Counts over all tasks.

    Returns:
        zones: {hard, boundary, mastered} of the active tasks by their latest mean, unobserved: active tasks
        without one; active_seeds, active_variants, waiting; retired and refused: {reason: count};
        seeds_emitted, seeds_open: seed requests in all and those without an outcome; requests closed by
        outcome under seeds_closed.
    """
    zones: Counter[str] = Counter({name.value: 0 for name in Zone})
    counts: Counter[tuple[TaskStatus, Origin]] = Counter()
    retired: Counter[str] = Counter()
    unobserved = 0
    for record in state.tasks.values():
        counts[record.status, record.origin] += 1
        mean = record.statistics.mean
        if record.reason is not None:
            retired[record.reason.value] += 1
        elif record.status is TaskStatus.ACTIVE and mean is not None:
            zones[zone(mean, state.boundary).value] += 1
        elif record.status is TaskStatus.ACTIVE:
            unobserved += 1
    closed = Counter(request.outcome.value for request in state.requests.values() if request.outcome)
    return {
        "zones": dict(zones),
        "unobserved": unobserved,
        "active_seeds": counts[TaskStatus.ACTIVE, Origin.SEED],
        "active_variants": counts[TaskStatus.ACTIVE, Origin.VARIANT],
        "waiting": counts[TaskStatus.WAITING, Origin.VARIANT],
        "retired": dict(sorted(retired.items())),
        "refused": dict(sorted(state.refused.items())),
        "seeds_emitted": len(state.requests),
        "seeds_open": len(state.requests) - closed.total(),
        "seeds_closed": dict(sorted(closed.items())),
    }
