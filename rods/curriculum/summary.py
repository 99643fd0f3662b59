"""The pool in a few numbers, for the console, the metrics file and the status command."""

from __future__ import annotations

from typing import Any

from rods.curriculum.index import UNOBSERVED_ZONE, Index
from rods.curriculum.records import TaskStatus
from rods.curriculum.value import CurriculumState
from rods.curriculum.zones import Zone
from rods.tasks.model import Origin


def summary(state: CurriculumState) -> dict[str, Any]:
    """Counts over all tasks; costs nothing that grows with the pool.

    Returns:
        zones: {hard, boundary, mastered} of the active tasks by their latest mean, unobserved: active tasks
        without one; active_seeds, active_variants, waiting; retired and refused: {reason: count};
        seeds_emitted, seeds_open: seed requests in all and those without an outcome; requests closed by
        outcome under seeds_closed.
    """
    index = state.index
    return {
        "zones": {name.value: index.count("zone", name) for name in Zone},
        "unobserved": index.count("zone", UNOBSERVED_ZONE),
        "active_seeds": index.count("status", TaskStatus.ACTIVE, Origin.SEED),
        "active_variants": index.count("status", TaskStatus.ACTIVE, Origin.VARIANT),
        "waiting": index.count("status", TaskStatus.WAITING, Origin.VARIANT),
        "retired": _by_name(index, "retired"),
        "refused": dict(sorted(state.refused.items())),
        "seeds_emitted": len(state.requests),
        "seeds_open": len(index.open),
        "seeds_closed": _by_name(index, "closed"),
    }


def figures(state: CurriculumState) -> dict[str, Any]:
    """The pool's part of a line of metrics/train.jsonl (docs/metrics.md)."""
    counts = summary(state)
    resting = state.index.count("status", TaskStatus.RESTING, Origin.SEED)
    return {
        "zones": counts["zones"],
        "unobserved": counts["unobserved"],
        "pool_active": counts["active_seeds"] + counts["active_variants"],
        "pool_seeds": counts["active_seeds"],
        "pool_variants": counts["active_variants"],
        "waiting": counts["waiting"],
        "seeds_emitted": counts["seeds_emitted"],
        "seeds_open": counts["seeds_open"],
        "seeds_dropped": counts["seeds_closed"].get("dropped", 0),
        "variants_accepted": len(state.tasks) - counts["active_seeds"] - resting,
        "variants_refused": sum(counts["refused"].values()),
        "retired": sum(counts["retired"].values()),
    }


def _by_name(index: Index, kind: str) -> dict[str, int]:
    return {str(label[1]): count for label, count in sorted(index.counts.items()) if label[0] == kind}
