"""What makes a folder a checkpoint: its COMPLETE marker, and where it stands in the run's history.

The marker is written last and holds size and SHA-256 of every file, the attempt that wrote it and how many
records of the journal its state stands for. A trainer that was frozen, and wakes up after another attempt has
continued the run, may still write a whole checkpoint; the journals tell that its history was left behind.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rods.exchange.atomic import CorruptFileError, read_json, write_json
from rods.exchange.lineage import continuations

MARKER = "COMPLETE"
_NAME = re.compile(r"step_(?P<step>\d{6,})-(?P<attempt>\d{4,})(?:\.(?P<save>\d+))?")
_READERS = 8  # files that are hashed at once; SHA-256 runs outside Python's lock


@dataclass(frozen=True, order=True)
class Name:
    """A checkpoint folder's name, step_<step>-<attempt>[.<save>]; sorts from the oldest to the newest.

    Each attempt has names of its own, so that two can never write into one folder.
    """

    step: int
    attempt: int
    save: int = 0

    def __str__(self) -> str:
        return f"step_{self.step:06d}-{self.attempt:04d}" + (f".{self.save}" if self.save else "")

    @classmethod
    def parse(cls, name: str) -> Name | None:
        """None when `name` is no such name."""
        match = _NAME.fullmatch(name)
        return cls(int(match["step"]), int(match["attempt"]), int(match["save"] or 0)) if match else None


@dataclass(frozen=True)
class FileMark:
    """Size in bytes and SHA-256 (hex) of a file."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Marker:
    """What COMPLETE says.

    Attributes:
        step: training steps done.
        attempt: who wrote it.
        records: the history's length at that point.
        files: by path relative to the checkpoint's folder.
    """

    step: int
    attempt: int
    records: int
    files: Mapping[str, FileMark]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(mark.size for mark in self.files.values())


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint: every file is there with its size."""

    folder: Path
    name: Name
    marker: Marker


@dataclass(frozen=True)
class Scan:
    """What lies in a checkpoints folder, from the oldest to the newest.

    Attributes:
        complete: checkpoints that a run may continue from.
        void: whole ones that are no part of the run's history, with the reason.
        torn: folders that are none, with the reason.
    """

    complete: tuple[Checkpoint, ...]
    void: tuple[tuple[Checkpoint, str], ...]
    torn: tuple[tuple[Path, str], ...]


def write(folder: Path, step: int, attempt: int, records: int) -> Marker:
    """Bring every file below `folder` to the disk and write its COMPLETE.

    Each file is read once for its hash, from the page cache in which it still lies. (A 4B policy with its
    optimizer is some 50 GB: at about 1 GB/s and core, 8 files at once, well under a minute.)
    """
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    with ThreadPoolExecutor(_READERS) as pool:
        marks = list(pool.map(_flush, paths))
    files = {path.relative_to(folder).as_posix(): mark for path, mark in zip(paths, marks, strict=True)}
    marker = Marker(step, attempt, records, files)
    plain = {name: {"size": mark.size, "sha256": mark.sha256} for name, mark in files.items()}
    write_json(folder / MARKER, {"step": step, "attempt": attempt, "records": records, "files": plain})
    return marker


def read(folder: Path) -> Marker:
    """What the COMPLETE of `folder` says.

    Raises:
        FileNotFoundError: there is none.
        CorruptFileError: it is damaged.
    """
    body = read_json(folder / MARKER)
    try:
        files = {str(name): FileMark(int(mark["size"]), str(mark["sha256"])) for name, mark in _items(body)}
        return Marker(int(body["step"]), int(body["attempt"]), int(body["records"]), files)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(
            f"{folder / MARKER}: expected step, attempt, records and files, found {str(body)[:200]}. "
            "Continue from another checkpoint."
        ) from error


def scan(root: Path, journal_dir: Path, writer: str) -> Scan:
    """Look through the checkpoints folder `root`; what is not named like a checkpoint is left alone.

    Args:
        journal_dir, writer: whose journals tell which checkpoints are part of the history.

    Raises:
        JournalError: a journal's first record is damaged.
    """
    kept = continuations(journal_dir, writer)
    named = ((Name.parse(path.name), path) for path in root.glob("step_*") if path.is_dir())
    complete, void, torn = [], [], []
    for name, folder in sorted((name, path) for name, path in named if name):
        try:
            found = Checkpoint(folder, name, _complete(folder))
        except CorruptFileError as error:
            torn.append((folder, str(error)))
            continue
        reason = _left_behind(found.marker, kept)
        void.append((found, reason)) if reason else complete.append(found)
    return Scan(tuple(complete), tuple(void), tuple(torn))


def flaw(folder: Path) -> str | None:
    """Why `folder` is no complete checkpoint, by its marker and its files' sizes; None when it is."""
    try:
        _complete(folder)
    except CorruptFileError as error:
        return str(error)
    return None


def damaged_files(checkpoint: Checkpoint) -> list[str]:
    """Paths below the checkpoint's folder whose bytes are not those that were written. Reads all of it."""
    marks = checkpoint.marker.files
    with ThreadPoolExecutor(_READERS) as pool:
        found = pool.map(lambda name: _hash(checkpoint.folder / name), marks)
        return [name for (name, mark), sha in zip(marks.items(), found, strict=True) if sha != mark.sha256]


def _complete(folder: Path) -> Marker:
    """The marker of a whole checkpoint. Raises CorruptFileError with the reason why it is none."""
    try:
        marker = read(folder)
    except FileNotFoundError:
        raise CorruptFileError(f"no {MARKER} marker: its writing was cut short") from None
    except CorruptFileError as error:
        raise CorruptFileError(f"its {MARKER} marker is damaged ({error})") from error
    for name, mark in marker.files.items():
        path = folder / name
        if not path.is_file():
            raise CorruptFileError(f"{name} is missing")
        if path.stat().st_size != mark.size:
            raise CorruptFileError(f"{name} has {path.stat().st_size} bytes, {mark.size} were written")
    return marker


def _left_behind(marker: Marker, kept: Mapping[int, int]) -> str | None:
    """Why a checkpoint is no part of the history; None when it is.

    A later attempt that keeps fewer records than the checkpoint has went on from an earlier point.
    """
    for attempt, records in kept.items():
        if attempt > marker.attempt and records < marker.records:
            return (
                f"attempt {attempt} continued from record {records}, this is attempt {marker.attempt} at record "
                f"{marker.records}: that part of its history was left behind"
            )
    return None


def _items(body: Any) -> Any:
    return dict(body["files"]).items()


def _flush(path: Path) -> FileMark:
    """Force a file to disk; its size and hash."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
        size = os.fstat(stream.fileno()).st_size
    return FileMark(size, _hash(path))


def _hash(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
