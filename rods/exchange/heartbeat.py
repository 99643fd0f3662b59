"""Signs of life: each role writes a small file now and then, and its age tells whether the role still moves.

The age is the file's mtime against a probe in the same folder, so that the clocks of the nodes do not matter.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rods.errors import RodsError
from rods.exchange import server_clock
from rods.exchange.atomic import CorruptFileError, make_dirs, read_json, write_json

FINISHED = "finished"
_ROLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_NO_PROBE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)


class HeartbeatError(RodsError):
    """A role name that cannot be a file name."""


@dataclass(frozen=True)
class Beat:
    """The newest sign of life of one role.

    Attributes:
        age_s: seconds since it was written, by the file server's clock.
        finished: the role ended by itself; its age then means nothing.
    """

    role: str
    phase: str
    age_s: float
    pid: int
    host: str
    info: dict[str, Any] = field(default_factory=dict)
    finished: bool = False


class Heartbeat:
    """Writes the beats of `role` into folder `directory`, as <role>.json."""

    def __init__(self, directory: Path, role: str) -> None:
        if not _ROLE.fullmatch(role):
            raise HeartbeatError(f"role {role!r}: expected letters, digits, '-' and '_' only.")
        make_dirs(directory)
        self.path = directory / f"{role}.json"
        self.role = role

    def beat(self, phase: str, **info: Any) -> None:
        """Say what the role does now; `info`: JSON values for the status view. Raises OSError (full disk)."""
        body = {
            "role": self.role,
            "phase": phase,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "info": info,
        }
        write_json(self.path, body)

    def finish(self, **info: Any) -> None:
        """The last beat: the role ended by itself."""
        self.beat(FINISHED, **info)


def read_all(directory: Path) -> dict[str, Beat]:
    """The newest beat of every role in `directory`; empty when the folder is not there yet.

    Raises:
        CorruptFileError: a beat that is not as `Heartbeat` writes it.
    """
    if not directory.is_dir():
        return {}
    now = _now(directory)
    beats = (_read(path, now) for path in sorted(directory.glob("[!.]*.json")))
    return {beat.role: beat for beat in beats}


def _read(path: Path, now: float) -> Beat:
    body = read_json(path)
    age = max(0.0, now - path.stat().st_mtime)
    try:
        role, phase, pid, host, info = (body[key] for key in ("role", "phase", "pid", "host", "info"))
    except (KeyError, TypeError) as error:
        raise CorruptFileError(
            f"{path}: expected a heartbeat, found {str(body)[:200]}. Remove the file."
        ) from error
    return Beat(role, phase, age, pid, host, info, finished=phase == FINISHED)


def _now(directory: Path) -> float:
    """The file server's time; this node's where no probe can be written (a read-only viewer)."""
    try:
        return server_clock.now(directory)
    except OSError as error:
        if error.errno not in _NO_PROBE:
            raise
        return time.time()
