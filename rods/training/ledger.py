"""The trainer's one way to change the curriculum: write the event down, then apply it.

State is a fold over the journal, so nothing may change the state that is not in the journal, and nothing may
be decided on a state that the journal does not explain.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rods.config import Config
from rods.curriculum.events import Event, parse_event
from rods.curriculum.state import CurriculumState, fold, replay
from rods.errors import RodsError
from rods.exchange.journal import JournalWriter
from rods.exchange.lineage import continuation, history
from rods.exchange.rundir import RunDir
from rods.tasks.taskset import TaskSet
from rods.training.tracker import NAME, BackgroundWriter, Snapshot

WRITER = "train"


class LedgerError(RodsError):
    """A snapshot that the journal does not lead to."""


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
        state = replay(tasks.train, config.boundary, config.buffer, ())
        return Ledger._open(run, attempt, config, state, 0)

    @staticmethod
    def resume(run: RunDir, attempt: int, config: Config, tasks: TaskSet, snapshot: dict[str, Any]) -> Ledger:
        """The history up to a checkpoint's snapshot, verified by replay.

        Raises:
            LedgerError: replaying the journal gives another state than the snapshot holds.
        """
        count = int(snapshot["records"])
        past = history(run.journal_dir, WRITER, before=run.journal_file(WRITER, attempt))[:count]
        state = replay(tasks.train, config.boundary, config.buffer, map(parse_event, past))
        if len(past) != count or state.digest() != snapshot["digest"]:
            raise LedgerError(
                f"{run.path}: replaying {len(past)} journal records gives curriculum state {state.digest()[:12]}, "
                f"the checkpoint holds {count} records and {snapshot['digest'][:12]}. "
                "The journal or the seed tasks changed since; resume from an older checkpoint or start a new run."
            )
        return Ledger._open(run, attempt, config, state, count)

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

    def snapshot(self) -> dict[str, Any]:
        """What stands for the state in a checkpoint: its digest and the journal position it belongs to."""
        return self._now().summary()

    def save(self, folder: Path) -> None:
        """Write the whole state to `folder`/tracker.json, durably, and the journal it rests on before it."""
        self._journal.sync()
        self._now().write(folder / NAME)

    def write_tracker(self) -> None:
        """Have `tracker.json` written, the snapshot that people and commands read; the step goes on meanwhile.

        Raises:
            OSError: an earlier one could not be written.
        """
        self._tracker.submit(self._now())

    def close(self) -> None:
        """Wait for the tracker, then close the journal. Raises OSError when the tracker could not be written."""
        try:
            self._tracker.close()
        finally:
            self._journal.close()

    def _now(self) -> Snapshot:
        return Snapshot(self.state, self.records, {self._journal.path.name: self._journal.offset})
