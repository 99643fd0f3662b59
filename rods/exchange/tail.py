"""Following one writer's history while it is written: each look reads only the bytes added since the last.

A reader needs no lock and no notice. A record counts once its frame is whole, so that a torn tail is read again
until it is; a file on a network file system may show late; and an attempt may go on from an earlier point, so
that a reader has to forget what came behind it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rods.exchange.journal import JournalError, JournalMissingError, files, read
from rods.exchange.lineage import merge

Record = dict[str, Any]
_POLL_S = 0.1


@dataclass(frozen=True)
class News:
    """How a history changed between two looks.

    Attributes:
        kept: how many of the records that the reader had are still part of it, from its start.
        records: what comes behind those.
    """

    kept: int
    records: tuple[Record, ...]


@dataclass(frozen=True)
class Torn:
    """Bytes that are no whole record.

    Attributes:
        path: the journal.
        size: how many.
        cut: a writer found them when it opened the journal, and keeps them beside it; otherwise they are its end:
            a record that is being written, or was when its writer died.
    """

    path: Path
    size: int
    cut: bool


class JournalTail:
    """A follower of one writer's history over its attempts; after each look it has what `lineage.history` gives.

    Args:
        journal_dir: the run's journal folder; it may not be there yet.
        writer: whose history.
        appear_within_s: seconds that a look waits for journals which others, or an earlier look, say are there.

    Attributes:
        history: the records that count, as of the last look.
    """

    def __init__(self, journal_dir: Path, writer: str, *, appear_within_s: float = 0.0) -> None:
        self.history: list[Record] = []
        self._journal_dir, self._writer, self._budget_s = journal_dir, writer, appear_within_s
        self._records: dict[Path, list[Record]] = {}
        self._offsets: dict[Path, int] = {}

    def look(self) -> News:
        """Read what was added.

        Raises:
            JournalCorruptError: damage, or a file shorter than what was read of it; names file and offset.
            JournalMissingError: a journal that was read before is not there, also after the wait.
            JournalError: an attempt continues more records than there are, also after the wait.

        After an error the look may be repeated; the history is that of the last good look.
        """
        deadline = time.monotonic() + self._budget_s
        while True:
            there = self._read_new()
            try:
                now = self._merged(there)
                break
            except JournalError:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(_POLL_S)
        kept = self._common(now)
        self.history = now
        return News(kept, tuple(now[kept:]))

    def torn(self) -> list[Torn]:
        """What was torn in the journals of the last look, whether it is still there or was cut since."""
        ends = ((path, path.stat().st_size - end) for path, end in self._offsets.items())
        kept = ((path, path.with_name(f"{path.name}.torn")) for path in self._offsets)
        found = [Torn(path, size, cut=False) for path, size in ends if size > 0]
        return found + [Torn(path, aside.stat().st_size, cut=True) for path, aside in kept if aside.exists()]

    def _read_new(self) -> list[Path]:
        """Take in what the files hold behind the known offsets; returns them by attempt."""
        there = files(self._journal_dir, self._writer)
        for path in there:
            found, self._offsets[path] = read(path, offset=self._offsets.get(path, 0))
            self._records.setdefault(path, []).extend(found)
        return there

    def _merged(self, there: list[Path]) -> list[Record]:
        gone = sorted(self._records.keys() - set(there))
        if gone:
            raise JournalMissingError(f"journal {gone[0]} was read before, and is not there. Restore it.")
        return merge((path, self._records[path]) for path in there)

    def _common(self, now: list[Record]) -> int:
        """Leading records that are the ones of the last look: the very same objects, for each is read once."""
        pairs = enumerate(zip(self.history, now, strict=False))
        shorter = min(len(self.history), len(now))
        return next((index for index, (old, new) in pairs if old is not new), shorter)
