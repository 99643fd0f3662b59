"""Append-only journals: the run's truth, since every state is a fold over them.

Records are framed (see `frames`). What can be left by a crash is a *torn tail*: readers stop before it, and the
writer sets its bytes aside when it opens the file. Anything else that does not check out is damage: an error
with file and offset. Events are never skipped.

Each file has one writer; readers need no lock, since a frame counts only once it is whole.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rods.exchange.atomic import FILE_MODE, fsync_dir, make_dirs, write_fully
from rods.exchange.frames import (
    HEADER_BYTES,
    MAX_RECORD_BYTES,
    JournalCorruptError,
    JournalError,
    decode,
    frame,
    payload_bytes,
)
from rods.exchange.pressure import attempt
from rods.exchange.torn import set_tail_aside

__all__ = [
    "FSYNC_POLICIES",
    "HEADER_BYTES",
    "MAX_RECORD_BYTES",
    "JournalCorruptError",
    "JournalError",
    "JournalMissingError",
    "JournalWriter",
    "attempt_of",
    "decode",
    "files",
    "first",
    "frame",
    "read",
    "read_all",
    "writer_of",
]

FSYNC_POLICIES = ("always", "step", "never")
_FILE_NAME = re.compile(r"(?P<writer>.+)-(?P<attempt>\d+)\.log")
_POLL_S = 0.1
_log = logging.getLogger(__name__)


class JournalMissingError(JournalError):
    """There is no such journal, also after the wait that was asked for."""


def read(path: Path, *, offset: int = 0, appear_within_s: float = 0.0) -> tuple[list[dict[str, Any]], int]:
    """Whole records of journal `path` from byte `offset` on, and the offset to continue from.

    Args:
        offset: 0 or an offset that an earlier call returned.
        appear_within_s: seconds to wait for a file that another node has just made.

    Raises:
        JournalMissingError: no such file.
        JournalCorruptError: damage, or a file shorter than `offset`.
    """
    _await_file(path, appear_within_s)
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        if offset > size:
            raise JournalCorruptError(path, size, f"the end of the file before the known offset {offset}")
        stream.seek(offset)
        data = stream.read()
    return decode(data, path, offset)


def first(path: Path) -> dict[str, Any] | None:
    """The first record of journal `path`; None while there is none. Raises as `read`."""
    _await_file(path, 0.0)
    with path.open("rb") as stream:
        header = stream.read(HEADER_BYTES)
        records, _ = decode(header + stream.read(payload_bytes(header)), path)
    return records[0] if records else None


def writer_of(path: Path) -> str:
    """Who wrote the journal `path`. Raises JournalError, as `files`."""
    return _parts(path)[0]


def attempt_of(path: Path) -> int:
    """The attempt that wrote the journal `path`. Raises JournalError, as `files`."""
    return _parts(path)[1]


def _await_file(path: Path, budget_s: float) -> None:
    """Wait until `path` is there. Listing the parent refreshes a network client's cached absence."""
    deadline = time.monotonic() + budget_s
    while not (path.parent.is_dir() and path.name in os.listdir(path.parent)):
        if time.monotonic() >= deadline:
            raise JournalMissingError(
                f"no journal {path} (waited {budget_s:g} s). Check the run directory and the writer's log."
            )
        time.sleep(_POLL_S)


def files(journal_dir: Path, writer: str | None = None) -> list[Path]:
    """Journals in `journal_dir` by writer, then attempt (as a number); of one `writer` when given.

    Raises:
        JournalError: a `.log` file whose name is not <writer>-<attempt>.log.
    """
    found = sorted((*_parts(path), path) for path in journal_dir.glob("*.log"))
    return [path for name, _, path in found if writer in (None, name)]


def _parts(path: Path) -> tuple[str, int]:
    """Writer and attempt in a journal's name."""
    match = _FILE_NAME.fullmatch(path.name)
    if match is None:
        raise JournalError(
            f"{path}: expected a journal named <writer>-<attempt>.log. Move this file elsewhere."
        )
    return match["writer"], int(match["attempt"])


def read_all(journal_dir: Path, writer: str | None = None) -> list[dict[str, Any]]:
    """Every record in (writer, attempt) order; of one `writer` when given. Raises as `read` and `files`."""
    return [record for path in files(journal_dir, writer) for record in read(path)[0]]


class JournalWriter:
    """The one writer of a journal file; made if absent, continued if there.

    Args:
        path: journal/<writer>-<attempt>.log
        fsync: when records reach the disk, so that they survive a power cut (they survive the process's death
            in any case): "always", before `append` returns; "step", before `sync` returns; "never", when the
            operating system decides, and on `close`.

    Attributes:
        offset: bytes of whole records, the position a snapshot notes.
        repaired_bytes: size of the torn tail found on opening, 0 for none; it is logged as a warning too.
        torn_file: where those bytes were set aside, None for none.

    Raises:
        JournalCorruptError: the file is damaged before its tail; nothing was changed.
        JournalError: no such policy.
    """

    def __init__(self, path: Path, *, fsync: str = "always") -> None:
        if fsync not in FSYNC_POLICIES:
            raise JournalError(
                f"journal {path}: expected fsync {' or '.join(FSYNC_POLICIES)}, found {fsync!r}."
            )
        self.path = path
        self.repaired_bytes = 0
        self.torn_file: Path | None = None
        self._fsync = fsync
        self._usable = True
        self._unsynced = bytearray()  # written since the last fsync, under "step"
        self._rewrite = False
        make_dirs(path.parent)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        self._descriptor = attempt(lambda: os.open(path, flags, FILE_MODE), path)
        try:
            self.offset = self._repair()
        except BaseException:
            os.close(self._descriptor)
            raise
        os.lseek(self._descriptor, self.offset, os.SEEK_SET)
        fsync_dir(path.parent)

    def _repair(self) -> int:
        """Cut a torn tail; returns the end of the whole records."""
        _, end = decode(self.path.read_bytes(), self.path)
        self.torn_file, self.repaired_bytes = set_tail_aside(self.path, end)
        if self.torn_file:
            _log.warning(
                "journal %s: %d bytes behind its last whole record were cut (a writer died in the middle of a "
                "write); they are kept in %s",
                self.path,
                self.repaired_bytes,
                self.torn_file,
            )
        return end

    def append(self, record: dict[str, Any]) -> None:
        """Add one record: `append_many` of one."""
        self.append_many([record])

    def append_many(self, records: Sequence[dict[str, Any]]) -> None:
        """Add records, all or none, in one write; durable on return under the policy "always".

        Raises:
            JournalError: a record is not JSON, or the journal is closed.
            OSError: the disk is full, …; the journal then ends as before, and the call may be repeated.
        """
        if not records:
            return
        data = frame(*records)
        attempt(lambda: self._write(data), self.path)
        self.offset += len(data)
        if self._fsync == "step":
            self._unsynced += data

    def _write(self, data: bytes) -> None:
        """Write behind the last whole record; after an error the journal ends as before."""
        if not self._usable:
            raise JournalError(
                f"journal {self.path} is closed, or could not be mended after a failed write. Reopen it."
            )
        try:
            write_fully(self._descriptor, data)
            if self._fsync == "always":
                os.fsync(self._descriptor)
        except OSError as error:
            self._undo(error)
            raise

    def sync(self) -> None:
        """Bring what was appended to the disk, under the policy "step"; otherwise nothing is to be done.

        Raises:
            OSError: it may not be on the disk; the call may be repeated.
        """
        if self._unsynced:
            attempt(self._sync, self.path)
            self._unsynced.clear()

    def _sync(self) -> None:
        try:
            if self._rewrite:
                # After a failed fsync the kernel may have dropped the pages and calls them clean: write them anew.
                self._write_again(bytes(self._unsynced))
            self._rewrite = True
            os.fsync(self._descriptor)
        except OSError as error:
            self._renew_stale(error)
            raise
        self._rewrite = False

    def _write_again(self, tail: bytes) -> None:
        os.lseek(self._descriptor, self.offset - len(tail), os.SEEK_SET)
        try:
            write_fully(self._descriptor, tail)
        finally:
            os.lseek(self._descriptor, self.offset, os.SEEK_SET)

    def _undo(self, error: OSError) -> None:
        """Cut what a failed append left. If that fails too, this writer stops; the next one repairs it."""
        self._usable = False
        self._renew_stale(error)
        os.ftruncate(self._descriptor, self.offset)
        os.lseek(self._descriptor, self.offset, os.SEEK_SET)
        self._usable = True

    def _renew_stale(self, error: OSError) -> None:
        """Open the file again by its path when the server forgot the descriptor (it restarted, it failed over)."""
        if error.errno == errno.ESTALE:
            os.close(self._descriptor)
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_NOFOLLOW)
            os.lseek(self._descriptor, self.offset, os.SEEK_SET)
            self._rewrite = True  # what the server had not yet written may be gone with it

    def close(self) -> None:
        """Make everything durable and close; further calls do nothing."""
        if self._descriptor < 0:
            return
        descriptor, self._descriptor, self._usable = self._descriptor, -1, False
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
