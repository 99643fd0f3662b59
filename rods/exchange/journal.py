"""Append-only journals: the run's truth, since every state is a fold over them.

A record is framed (magic, length, checksum of the two, checksum of the payload), because a process killed in
the middle of a write tears large records, and a torn line would swallow the next one. What can be left by a
crash is a *torn tail*: readers stop before it, and the writer sets its bytes aside when it opens the file.
Anything else that does not check out is damage: an error with file and offset. Events are never skipped.

Each file has one writer; readers need no lock, since a frame counts only once it is whole.
"""

from __future__ import annotations

import json
import os
import re
import struct
import time
import zlib
from pathlib import Path
from types import TracebackType
from typing import Any

from rods.errors import RodsError
from rods.exchange.atomic import FILE_MODE, fsync_dir, make_dirs, write_fully
from rods.exchange.torn import set_tail_aside

MAGIC = b"RJ01"
_PREFIX = struct.Struct(">4sI")  # magic, payload length
_CHECKS = struct.Struct(">II")  # crc32 of the prefix, crc32 of the payload
HEADER_BYTES = _PREFIX.size + _CHECKS.size
MAX_RECORD_BYTES = 64 * 2**20
_FILE_NAME = re.compile(r"(?P<writer>.+)-(?P<attempt>\d+)\.log")
_POLL_S = 0.1


class JournalError(RodsError):
    """A journal cannot be read or written."""


class JournalMissingError(JournalError):
    """There is no such journal, also after the wait that was asked for."""


class JournalCorruptError(JournalError):
    """Damage that no crash of the writer explains.

    Attributes:
        file: the journal.
        offset: first byte of the frame that does not check out.
    """

    def __init__(self, file: Path, offset: int, found: str) -> None:
        super().__init__(
            f"journal {file} is damaged at byte {offset}: expected a record, found {found}. "
            "Records before it are whole; restore the file from a copy or go back to a checkpoint before it."
        )
        self.file = file
        self.offset = offset


def frame(record: dict[str, Any]) -> bytes:
    """The bytes of one record.

    Raises:
        JournalError: it is not JSON, or larger than MAX_RECORD_BYTES.
    """
    try:
        payload = json.dumps(record, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise JournalError(
            f"a journal record must be plain JSON: {error}. Found: {str(record)[:200]}"
        ) from error
    if len(payload) > MAX_RECORD_BYTES:
        raise JournalError(
            f"a journal record may have {MAX_RECORD_BYTES} bytes, found {len(payload)}. Split it."
        )
    prefix = _PREFIX.pack(MAGIC, len(payload))
    return prefix + _CHECKS.pack(zlib.crc32(prefix), zlib.crc32(payload)) + payload


def decode(data: bytes, file: Path, base: int = 0) -> tuple[list[dict[str, Any]], int]:
    """Records in `data`, which starts at byte `base` of `file`, and the offset after the last of them.

    Raises:
        JournalCorruptError: bytes that are neither a record nor a torn tail.
    """
    records: list[dict[str, Any]] = []
    position = 0
    while position < len(data):
        payload = _payload(data, position, file, base)
        if payload is None:
            break
        records.append(json.loads(payload))
        position += HEADER_BYTES + len(payload)
    return records, base + position


def _payload(data: bytes, position: int, file: Path, base: int) -> bytes | None:
    """The payload of the frame at `position`; None for a torn tail."""
    start = position + HEADER_BYTES
    if start > len(data):
        return None
    prefix = data[position : position + _PREFIX.size]
    magic, length = _PREFIX.unpack(prefix)
    prefix_check, payload_check = _CHECKS.unpack_from(data, position + _PREFIX.size)
    if magic != MAGIC or zlib.crc32(prefix) != prefix_check:
        if not any(memoryview(data)[position:]):
            # The file grew before its bytes arrived: zeros up to the end.
            return None
        raise JournalCorruptError(file, base + position, f"the bytes {data[position:start].hex()}")
    payload = data[start : start + length]
    if len(payload) == length and zlib.crc32(payload) == payload_check:
        return payload
    if start + length >= len(data):
        # The last frame, cut short or with holes where pages had not arrived.
        return None
    raise JournalCorruptError(file, base + position, f"{length} bytes whose checksum differs")


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
    found = []
    for path in journal_dir.glob("*.log"):
        match = _FILE_NAME.fullmatch(path.name)
        if match is None:
            raise JournalError(
                f"{path}: expected a journal named <writer>-<attempt>.log. Move this file elsewhere."
            )
        found.append((match["writer"], int(match["attempt"]), path))
    return [path for name, _, path in sorted(found) if writer in (None, name)]


def read_all(journal_dir: Path, writer: str | None = None) -> list[dict[str, Any]]:
    """Every record in (writer, attempt) order; of one `writer` when given. Raises as `read` and `files`."""
    return [record for path in files(journal_dir, writer) for record in read(path)[0]]


class JournalWriter:
    """The one writer of a journal file; made if absent, continued if there.

    Args:
        path: journal/<writer>-<attempt>.log
        fsync: True: a record survives a power cut once `append` returns. False: it survives the process only,
            and the operating system decides when it reaches the disk.

    Attributes:
        offset: bytes of whole records, the position a snapshot notes.
        repaired_bytes: size of the torn tail found on opening, 0 for none.
        torn_file: where those bytes were set aside, None for none.

    Raises:
        JournalCorruptError: the file is damaged before its tail; nothing was changed.
    """

    def __init__(self, path: Path, *, fsync: bool = True) -> None:
        self.path = path
        self.repaired_bytes = 0
        self.torn_file: Path | None = None
        self._fsync = fsync
        self._usable = True
        make_dirs(path.parent)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, FILE_MODE)
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
        return end

    def append(self, record: dict[str, Any]) -> None:
        """Add one record; durable on return under the fsync policy.

        Raises:
            JournalError: the record is not JSON, or the journal is closed.
            OSError: the disk is full, …; the journal then ends as before, and the call may be repeated.
        """
        if not self._usable:
            raise JournalError(
                f"journal {self.path} is closed, or could not be mended after a failed write. Reopen it."
            )
        data = frame(record)
        try:
            write_fully(self._descriptor, data)
            if self._fsync:
                os.fsync(self._descriptor)
        except OSError:
            self._undo()
            raise
        self.offset += len(data)

    def _undo(self) -> None:
        """Cut what a failed append left. If that fails too, this writer stops; the next one repairs it."""
        self._usable = False
        os.ftruncate(self._descriptor, self.offset)
        os.lseek(self._descriptor, self.offset, os.SEEK_SET)
        self._usable = True

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
