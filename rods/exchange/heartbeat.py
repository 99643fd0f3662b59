"""Signs of life: each role writes a small file now and then, and its age tells whether the role still moves.

The age is the file's mtime against a probe in the same folder, so that the clocks of the nodes do not matter.
"""

from __future__ import annotations

import contextlib
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
from rods.exchange.atomic import CorruptFileError, make_dirs, read_json, rename, write_json
from rods.exchange.pressure import FULL, PAUSED, at_once, say

FINISHED = "finished"
_ROLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_NO_PROBE = (errno.EACCES, errno.EPERM, errno.EROFS, *FULL)


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
    """Writes the beats of `role` into folder `directory`, as <role>.json.

    A beat that cannot be written ends nothing: the role says so once and tries again at the next. A full disk
    takes no file, but it takes a rename: what a beat says then was written beforehand, and shows the role as
    paused.
    """

    def __init__(self, directory: Path, role: str) -> None:
        if not _ROLE.fullmatch(role):
            raise HeartbeatError(f"role {role!r}: expected letters, digits, '-' and '_' only.")
        make_dirs(directory)
        self.path = directory / f"{role}.json"
        self.role = role
        self._spare = directory / f".{role}.paused.json"
        self._told = False
        self._prepared = False

    def beat(self, phase: str, **info: Any) -> None:
        """Say what the role does now; `info`: JSON values for the status view."""
        with at_once():
            try:
                self._write(phase, info)
                self._told = False
            except OSError as error:
                self._tell(error)
                self._show_paused(error)

    def _write(self, phase: str, info: dict[str, Any]) -> None:
        if not self._prepared:
            write_json(self._spare, self._body(PAUSED, {}))
            self._prepared = True
        write_json(self.path, self._body(phase, info))

    def _show_paused(self, error: OSError) -> None:
        """Let the beat prepared for this moment take the newest one's place, and keep it young."""
        if error.errno not in FULL:
            return
        self._prepared = False
        with contextlib.suppress(OSError):
            with contextlib.suppress(FileNotFoundError):
                rename(self._spare, self.path)
            os.utime(self.path)

    def _tell(self, error: OSError) -> None:
        if not self._told:
            say(f"{self.role}: the heartbeat cannot be written, it is tried again: {error}")
        self._told = True

    def _body(self, phase: str, info: dict[str, Any]) -> dict[str, Any]:
        return {
            "role": self.role,
            "phase": phase,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "info": info,
        }

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
        with at_once():
            return server_clock.now(directory)
    except OSError as error:
        if error.errno not in _NO_PROBE:
            raise
        return time.time()
