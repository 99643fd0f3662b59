"""A restart at the end of a long history: from the checkpoint's snapshot, and replayed from zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.curriculum_pools import BOUNDARY, GROUPS, ROLLOUTS, TYPES
from rods.config import BufferConfig, Config
from rods.curriculum.events import EpochStarted, Event, GroupObserved, RunStarted
from rods.curriculum.state import CurriculumState, fold, initial
from rods.exchange import lineage
from rods.exchange.journal import JournalWriter
from rods.exchange.lineage import continuation
from rods.tasks.model import Call, Task, Turn
from rods.training import recovery
from rods.training.recovery import Goal
from rods.training.tracker import Snapshot

PEER = "replay from zero"
_WRITER = "train"


class Restart:
    """A run of one observation a task, and a checkpoint at its end.

    Args:
        size: how many tasks.
        folder: for journal and snapshot.
    """

    def __init__(self, size: int, folder: Path) -> None:
        config = Config(boundary=BOUNDARY, buffer=BufferConfig())
        seeds = _seeds(size)
        self._folder, self._snapshot = folder / "journal", folder / "kept.json"
        state = initial(seeds, config.boundary, config.buffer)
        records = 0
        with JournalWriter(self._folder / f"{_WRITER}-0001.log", fsync="never") as journal:
            journal.append(continuation(0))
            for events in _history(seeds):
                journal.append_many([event.to_json() for event in events])
                state, records = fold(state, events), records + len(events)
        Snapshot(state, records, {}).write(self._snapshot)
        self._goal = Goal(records, state.digest(), config, seeds)

    def from_snapshot(self) -> None:
        """As the product does it."""
        self._restore([self._snapshot])

    def from_zero(self) -> None:
        """As it does it when no snapshot serves."""
        self._restore([])

    def _restore(self, snapshots: Sequence[Path]) -> CurriculumState:
        return recovery.restore(self._goal, lineage.unparsed(self._folder, _WRITER), snapshots)


def _seeds(size: int) -> list[Task]:
    """Tasks that differ in id and words."""
    turn = Turn("List the files.", (Call("ls", {}),))
    one = Task("task", TYPES[0], ("GorillaFileSystem",), {"GorillaFileSystem": {"root": {}}}, (turn,))
    return [
        replace(
            one,
            id=f"multi_turn_{number:07d}",
            seed_id=f"multi_turn_{number:07d}",
            type=TYPES[number % len(TYPES)],
            turns=(replace(turn, query=f"List the files of folder {number}."),),
        )
        for number in range(size)
    ]


def _history(seeds: Sequence[Task]) -> list[list[Event]]:
    """Steps of 32 groups until every task was observed once."""
    rewards = tuple(number % 3 / 2 for number in range(ROLLOUTS))
    steps: list[list[Event]] = [[RunStarted(0, 0, "f" * 64, 1), EpochStarted(0, 1, len(seeds))]]
    for start in range(0, len(seeds), GROUPS):
        step = start // GROUPS + 1
        steps.append([GroupObserved(step, 1, seed.id, rewards) for seed in seeds[start : start + GROUPS]])
    return steps
