"""Journals: whole, with a torn tail, or damaged; and the history that they make together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rods.exchange import journal
from rods.exchange.journal import JournalCorruptError, JournalError
from rods.exchange.lineage import merge
from rods.exchange.rundir import RunDir
from rods.exchange.torn import set_tail_aside
from rods.fsck.report import Finding, Severity, relative, set_aside

Record = dict[str, Any]


@dataclass(frozen=True)
class Journal:
    """One journal file, as far as it can be read.

    Attributes:
        records: the whole ones, up to the first damage.
        end: the byte behind them.
        damage: what is wrong there, "" for nothing but perhaps a torn tail.
    """

    path: Path
    writer: str
    records: list[Record]
    end: int
    damage: str

    @property
    def tail(self) -> int:
        """Bytes behind the last whole record."""
        return self.path.stat().st_size - self.end


def read_all(run: RunDir) -> list[Journal]:
    """Every journal, by writer and attempt."""
    paths = [path for path in run.journal_dir.glob("*.log") if not misnamed(path) and path.is_file()]
    return [_read(path) for path in sorted(paths, key=lambda path: (journal.writer_of(path), _attempt(path)))]


def history(journals: list[Journal], writer: str) -> list[Record]:
    """The records that count of what can be read. Raises JournalError when that does not fit together."""
    return merge((each.path, each.records) for each in journals if each.writer == writer)


def positions(journals: list[Journal], writer: str) -> dict[str, int]:
    """Where the history of a writer ends: in the file of its newest attempt, as the ledger writes it down."""
    own = [each for each in journals if each.writer == writer]
    return {each.path.name: each.end for each in own[-1:]}


def check_names(run: RunDir) -> Iterator[Finding]:
    """Files between the journals that are none; tails that were cut before."""
    for path in sorted(run.journal_dir.glob("*")):
        if path.suffix == ".log" and (misnamed(path) or path.is_symlink() or not path.is_file()):
            yield Finding(
                "journal-stray",
                Severity.ERROR,
                relative(run, path),
                "a regular file named <writer>-<attempt>.log",
                "another name, a link or a folder; readers refuse the whole folder for it",
                "move it elsewhere",
                partial(set_aside, run, path),
            )
        if path.suffix == ".torn":
            yield Finding(
                "tail-kept",
                Severity.INFO,
                relative(run, path),
                "no torn tail",
                f"{path.stat().st_size} bytes that a writer left half-written when it died",
                "nothing; the file may be removed",
            )


def check_tail(run: RunDir, found: Journal, spare: bool) -> Iterator[Finding]:
    """What lies behind the whole records.

    Args:
        spare: the run can go on without what comes behind the whole records.
    """
    where = relative(run, found.path)
    if found.damage:
        yield Finding(
            "journal-damaged",
            Severity.ERROR,
            where,
            f"records up to byte {found.path.stat().st_size}",
            f"{found.damage} at byte {found.end}, behind {len(found.records)} whole records",
            "a repair cuts there: no checkpoint needs more"
            if spare
            else "restore the file from a copy; what comes behind that byte is needed",
            partial(_cut, run, found) if spare else None,
        )
    elif found.tail:
        yield Finding(
            "journal-torn",
            Severity.WARNING,
            where,
            f"the end of the file at byte {found.end}",
            f"{found.tail} bytes of a record that was never finished",
            "nothing: readers stop before it",
            partial(_cut, run, found),
        )


def misnamed(path: Path) -> bool:
    """Whether a file is not named like a journal."""
    try:
        journal.writer_of(path)
    except JournalError:
        return True
    return False


def _attempt(path: Path) -> int:
    return journal.attempt_of(path)


def _read(path: Path) -> Journal:
    data, writer = path.read_bytes(), journal.writer_of(path)
    try:
        records, end = journal.decode(data, path)
    except JournalCorruptError as error:
        records, end = journal.decode(data[: error.offset], path)
        return Journal(path, writer, records, end, error.found)
    return Journal(path, writer, records, end, "")


def _cut(run: RunDir, found: Journal) -> str:
    aside, count = set_tail_aside(found.path, found.end)
    kept = f", kept in {relative(run, aside)}" if aside else ""
    return f"cut {count} bytes behind byte {found.end} of {relative(run, found.path)}{kept}"
