"""flock: what it does here. A run does not use it; recordings of MCP servers and `rods evaluate` do."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rods.doctor.finding import Finding, Level
from rods.doctor.processes import beside

_UNUSED = "No training depends on it: what roles share they claim by rename."
_ABSENT = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)


def flock(folder: Path) -> Finding:
    """Whether a lock that one process holds keeps another out."""
    path = folder / "locked"
    path.touch()
    try:
        with _held(path), beside(lambda: _is_free(path)) as answers:
            (free,) = answers()
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
        return Finding("flock", Level.note, f"absent ({error.strerror})", _UNUSED)
    if free:
        return Finding("flock", Level.note, "granted to two processes at once: it does nothing here", _UNUSED)
    return Finding(
        "flock",
        Level.ok,
        "works between processes of this node",
        f"Whether other nodes see it depends on the mount (Lustre: flock or localflock). {_UNUSED}",
    )


@contextmanager
def _held(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _is_free(path: Path) -> bool:
    try:
        with _held(path):
            return True
    except BlockingIOError:
        return False
