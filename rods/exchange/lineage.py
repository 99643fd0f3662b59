"""One writer's history over its attempts.

A restarted trainer continues from a checkpoint, which may lie before the end of its last journal: what came
after was never learnt and is not part of the run's history. The first record of the new attempt's journal says
how many records of the history it keeps, so that any reader arrives at the same history without a lock.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rods.exchange.frames import split
from rods.exchange.journal import JournalError, attempt_of, files, first, read

_CONTINUES = "continues"
_Record = TypeVar("_Record", dict[str, Any], msgspec.Raw)


def continuation(records: int) -> dict[str, Any]:
    """The first record of an attempt that keeps `records` records of the history before it."""
    return {"name": _CONTINUES, "records": records}


def history(journal_dir: Path, writer: str, *, before: Path | None = None) -> list[dict[str, Any]]:
    """The records that count, oldest first, continuation marks left out.

    Args:
        journal_dir: the run's journal folder.
        writer: whose history.
        before: a journal file of that writer; it and later attempts are left out.

    Raises:
        JournalError: an attempt continues more records than there are, or is damaged.
    """
    return merge((path, read(path)[0]) for path in _until(journal_dir, writer, before))


def unparsed(journal_dir: Path, writer: str, *, before: Path | None = None) -> list[msgspec.Raw]:
    """As `history`, each record as its bytes: for a reader that needs the last of many. Raises as `history`."""
    paths = _until(journal_dir, writer, before)
    return merge((path, split(path.read_bytes(), path)) for path in paths)


def _until(journal_dir: Path, writer: str, before: Path | None) -> Iterable[Path]:
    return takewhile(lambda path: path != before, files(journal_dir, writer))


def merge(journals: Iterable[tuple[Path, list[_Record]]]) -> list[_Record]:
    """The records that count out of one writer's journals in the order of its attempts.

    Raises:
        JournalError: an attempt continues more records than there are.
    """
    records: list[_Record] = []
    for path, found in journals:
        head = _parsed(found[0]) if found else {}
        if head.get("name") == _CONTINUES:
            kept = int(head["records"])
            if kept > len(records):
                raise JournalError(
                    f"journal {path} continues {kept} records, but the attempts before it hold {len(records)}. "
                    "An earlier journal is missing or cut: restore it from a copy."
                )
            records, found = records[:kept], found[1:]
        records.extend(found)
    return records


def _parsed(record: dict[str, Any] | msgspec.Raw) -> dict[str, Any]:
    if isinstance(record, msgspec.Raw):
        plain: dict[str, Any] = json.loads(bytes(record))
        return plain
    return record


def continuations(journal_dir: Path, writer: str) -> dict[int, int]:
    """By attempt: how many records of the history before it the attempt keeps. Reads first records only.

    An attempt that has not come to say it (it died at its start) keeps everything, and is left out.

    Raises:
        JournalError: a first record is damaged.
    """
    kept = {}
    for path in files(journal_dir, writer):
        record = first(path)
        if record is not None and record.get("name") == _CONTINUES:
            kept[attempt_of(path)] = int(record["records"])
    return kept


def digest(records: Sequence[dict[str, Any]]) -> str:
    """SHA-256 (hex) over records in order: equal histories have equal digests."""
    total = hashlib.sha256()
    for record in records:
        total.update(json.dumps(record, sort_keys=True, separators=(",", ":")).encode() + b"\n")
    return total.hexdigest()
