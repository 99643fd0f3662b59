"""Durable writes: a file is either whole or absent, also after a crash, and stays after a power cut.

Everything in the run directory that is replaced goes through here: write beside the target, fsync, rename
over it, fsync the folder. A reader on another node sees the old file or the new one, never half of one. What
a full disk or a passing error of the file server means is decided in `pressure`: each function here either does
all it says or raises with nothing changed, so that it can be tried again.

Permissions are left to the process's umask: see `permissions`.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rods.errors import RodsError
from rods.exchange.pressure import attempt

FILE_MODE = 0o666  # less the umask
_STALE = (errno.ESTALE,)


class CorruptFileError(RodsError):
    """A file that should hold JSON does not."""


def make_dirs(path: Path) -> None:
    """Create `path` and its missing parents; existing ones are kept. A file in the way is a FileExistsError."""
    attempt(lambda: path.mkdir(parents=True, exist_ok=True), path)


def fsync_dir(path: Path) -> None:
    """Make the entries of folder `path` durable: a rename is on disk only after this."""
    attempt(lambda: _fsync_dir(path), path, transient=_STALE)


def _fsync_dir(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_tree(folder: Path) -> None:
    """Bring to the disk what others wrote below `folder`: every file and every folder, itself included."""
    for parent, _, names in os.walk(folder):
        for name in names:
            descriptor = os.open(os.path.join(parent, name), os.O_RDONLY | os.O_NOFOLLOW)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        fsync_dir(Path(parent))


def rename(source: Path, target: Path) -> None:
    """Move `source` to `target`, atomically, over what is there; the folders are not synced.

    A network file system may report an error for a rename that it did: that is looked up before a repetition.

    Raises:
        FileNotFoundError: there is no `source`; somebody else was faster.
    """
    tried = False

    def move() -> None:
        nonlocal tried
        try:
            tried, again = True, tried
            source.rename(target)
        except FileNotFoundError:
            if not (again and os.path.lexists(target)):
                raise

    attempt(move, source)


def write_new(path: Path, data: bytes) -> os.stat_result:
    """Write `data` to a file that must not exist yet, fsync it, and return its status.

    The folder is not synced: the caller renames or links next. On an error nothing is left behind.
    """
    return attempt(lambda: _write_new(path, (data,)), path)


def _write_new(path: Path, pieces: Iterable[bytes]) -> os.stat_result:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, FILE_MODE)
    try:
        for piece in pieces:
            write_fully(descriptor, piece)
        os.fsync(descriptor)
        return os.fstat(descriptor)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def write_fully(descriptor: int, data: bytes) -> None:
    """`os.write` until every byte is written (a full disk writes a part first, then raises)."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path` by `data`, atomically and durably.

    Raises:
        OSError: the disk is full, read-only, …; the old file is then still whole.
    """
    write_pieces(path, lambda: (data,))


def write_pieces(path: Path, pieces: Callable[[], Iterable[bytes]]) -> None:
    """`write_bytes` of data that is made piece by piece, again from the start at each attempt."""
    attempt(lambda: _write_pieces(path, pieces()), path)


def _write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    _write_new(temporary, pieces)
    try:
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    _fsync_dir(path.parent)


def write_text(path: Path, text: str) -> None:
    """`write_bytes` of UTF-8 text."""
    write_bytes(path, text.encode())


def write_json(path: Path, obj: Any) -> None:
    """`write_bytes` of `obj` as JSON: keys sorted and indented, so that files can be read and compared.

    Raises:
        TypeError, ValueError: `obj` is not JSON (NaN and infinity included); nothing was written.
    """
    write_text(path, json.dumps(obj, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """The JSON value in `path`.

    Raises:
        CorruptFileError: the bytes are no JSON.
        FileNotFoundError: there is no such file.
    """
    return parse_json(attempt(path.read_bytes, path), path)


def parse_json(data: bytes, path: Path) -> Any:
    """Decode the contents of `path`. Raises CorruptFileError, as `read_json`."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(
            f"{path}: expected JSON, found {len(data)} bytes that are not ({error}). "
            "The file was damaged from outside; restore it from a checkpoint or remove it."
        ) from error
