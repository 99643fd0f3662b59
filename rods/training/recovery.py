"""How a restarted trainer comes by the curriculum's state: a snapshot and the events after it, or all events.

Both ways give the same state, bit for bit, and the checkpoint holds its digest, so that a wrong snapshot is found
out and a way that costs more is taken instead.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rods.config import Config
from rods.curriculum.events import parse_event
from rods.curriculum.state import CurriculumState, fold, initial
from rods.errors import RodsError
from rods.tasks.model import Task
from rods.training.tracker import Snapshot, SnapshotError

_log = logging.getLogger(__name__)


class LedgerError(RodsError):
    """A state that the journal does not lead to."""


@dataclass(frozen=True)
class Goal:
    """The state that is to be restored.

    Attributes:
        records: how many records of the history lead to it.
        digest: its digest.
        config: whose rules it follows.
        seeds: the tasks that the history began with.
    """

    records: int
    digest: str
    config: Config
    seeds: Sequence[Task]


def restore(goal: Goal, past: Sequence[msgspec.Raw], snapshots: Sequence[Path]) -> CurriculumState:
    """The state of `goal`, from the first snapshot that leads to it, else replayed from the seeds.

    A snapshot that does not serve is logged as a warning, with the reason.

    Args:
        past: the history, each record as its bytes; what lies behind the goal does not matter.
        snapshots: files, in order of preference.

    Raises:
        LedgerError: the journal does not lead to it.
        EventFormatError, ImpossibleEventError: nor can it be replayed.
    """
    if len(past) < goal.records:
        raise LedgerError(_broken(goal, f"{len(past)} records"))
    for path in snapshots:
        try:
            return _continued(goal, past, path)
        except (RodsError, OSError) as error:
            _log.warning("the curriculum's snapshot %s does not serve: %s", path, error)
    state = _fold(initial(goal.seeds, goal.config.boundary, goal.config.buffer), past[: goal.records])
    if state.digest() != goal.digest:
        raise LedgerError(
            _broken(goal, f"state {state.digest()[:12]}, by replaying them from the seed tasks")
        )
    return state


def _continued(goal: Goal, past: Sequence[msgspec.Raw], path: Path) -> CurriculumState:
    """Raises RodsError or OSError when the snapshot in `path` does not serve."""
    snapshot = Snapshot.read(path)
    if not 0 <= snapshot.records <= goal.records:
        raise SnapshotError(f"expected at most {goal.records} records, found {snapshot.records}")
    rules = goal.config.boundary, goal.config.buffer
    if (snapshot.state.boundary, snapshot.state.buffer) != rules:
        raise SnapshotError("expected the run's boundary and buffer settings, found others")
    state = _fold(snapshot.state, past[snapshot.records : goal.records])
    if state.digest() != goal.digest:
        raise SnapshotError(
            f"expected to come to state {goal.digest[:12]} with the records behind it, "
            f"found {state.digest()[:12]}"
        )
    return state


def _fold(state: CurriculumState, records: Sequence[msgspec.Raw]) -> CurriculumState:
    return fold(state, (parse_event(msgspec.json.decode(record)) for record in records))


def _broken(goal: Goal, found: str) -> str:
    return (
        f"the journal: expected {goal.records} records that lead to curriculum state {goal.digest[:12]}, as the "
        f"checkpoint says, found {found}. The journal or the seed tasks changed since; continue from an older "
        "checkpoint (move the newest one away), or start a new run"
    )
