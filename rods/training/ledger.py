"""The trainer's one way to change the curriculum: write the event down, then apply it.

State is a fold over the journal, so nothing may change the state that is not in the journal, and nothing may
be decided on a state that the journal does not explain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rods.config import Config
from rods.curriculum.events import Event
from rods.curriculum.state import CurriculumState, fold, initial
from rods.exchange import lineage
from rods.exchange.journal import JournalWriter
from rods.exchange.lineage import continuation
from rods.exchange.rundir import RunDir
from rods.tasks.taskset import TaskSet
from rods.training import recovery
from rods.training.recovery import LedgerError
from rods.training.tracker import BackgroundWriter, Snapshot

__all__ = ["WRITER", "Ledger", "LedgerError"]

WRITER = "train"


class Ledger:
    """Journal and state of one attempt of the training job.

    Attributes:
        state: the fold of all records so far.
        records: how many records the history has.
    """

    def __init__(self, run: RunDir, journal: JournalWriter, state: CurriculumState, records: int) -> None:
        self._journal = journal
        self.state = state
        self.records = records
        self._tracker = BackgroundWriter(lambda snapshot: snapshot.write(run.tracker))

    @staticmethod
    def begin(run: RunDir, attempt: int, config: Config, tasks: TaskSet) -> Ledger:
        """A history that starts with this attempt; what earlier attempts without a checkpoint wrote is void."""
        state = initial(tasks.train, config.boundary, config.buffer)
        return Ledger._open(run, attempt, config, state, 0)

    @staticmethod
    def resume(
        run: RunDir,
        attempt: int,
        config: Config,
        tasks: TaskSet,
        summary: Mapping[str, Any],
        snapshots: Sequence[Path] = (),
    ) -> Ledger:
        """The history up to a checkpoint: its state, from the first snapshot that serves, else from zero.

        Args:
            summary: that of the `snapshot` when the checkpoint was written.
            snapshots: files that hold the state at that point of the history or before it, in order of preference.

        Raises:
            LedgerError: the journal does not lead to the state that the checkpoint names.
            JournalError: a journal is damaged.
        """
        past = lineage.unparsed(run.journal_dir, WRITER, before=run.journal_file(WRITER, attempt))
        goal = recovery.Goal(int(summary["records"]), str(summary["digest"]), config, tasks.train)
        state = recovery.restore(goal, past, snapshots)
        return Ledger._open(run, attempt, config, state, goal.records)

    @staticmethod
    def _open(run: RunDir, attempt: int, config: Config, state: CurriculumState, records: int) -> Ledger:
        journal = JournalWriter(run.journal_file(WRITER, attempt), fsync=config.exchange.fsync)
        journal.append(continuation(records))
        return Ledger(run, journal, state, records)

    def record(self, events: Sequence[Event]) -> None:
        """Apply `events` and append them to the journal, all or none.

        The fold comes first only to refuse an impossible event before it is written; nobody sees the new
        state before the journal holds it.
        """
        state = fold(self.state, events)
        self._journal.append_many([event.to_json() for event in events])
        self.state = state
        self.records += len(events)

    def sync(self) -> None:
        """Bring what was recorded to the disk, where the configuration leaves that to the step."""
        self._journal.sync()

    def snapshot(self) -> Snapshot:
        """The state as it is and where it stands; the journal that it rests on is on the disk."""
        self._journal.sync()
        return Snapshot(self.state, self.records, {self._journal.path.name: self._journal.offset})

    def write_tracker(self, snapshot: Snapshot) -> None:
        """Have `tracker.json` written, the snapshot that people and commands read; the step goes on meanwhile.

        Raises:
            OSError: an earlier one could not be written.
        """
        self._tracker.submit(snapshot)

    def close(self) -> None:
        """Wait for the tracker, then close the journal. Raises OSError when the tracker could not be written."""
        try:
            self._tracker.close()
        finally:
            self._journal.close()
