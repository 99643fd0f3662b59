"""Who follows a run: one process at a time, since two trainers in one directory would write one journal.

Owners are numbered files that are made exclusively and never removed. Whoever finds the newest one dead makes
the next number; of two that do so at once, one finds that number taken. A name that is never used twice is
what makes this safe without a lock.
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from rods.errors import RodsError
from rods.exchange import server_clock
from rods.exchange.atomic import CorruptFileError, fsync_dir, make_dirs, read_json, write_json
from rods.exchange.heartbeat import Beat, read_all
from rods.exchange.rundir import RunDir

SUPERVISOR = "supervisor"
DEFAULT_TIMEOUT_S = 300.0


class OwnedError(RodsError):
    """A run that another process follows already; names its host and process."""


@dataclass(frozen=True)
class Owner:
    """A process that follows, or followed, a run.

    Attributes:
        timeout_s: without a sign of life for so long it counts as dead.
        released: it ended by itself.
    """

    path: Path
    host: str
    pid: int
    timeout_s: float
    released: bool

    def is_alive(self, run: RunDir) -> bool:
        """Whether it still follows the run, by its process on this host and by its newest sign of life."""
        own = self._as_beat(server_clock.now(self.path.parent) - self.path.stat().st_mtime)
        beat = read_all(run.heartbeats).get(SUPERVISOR)
        if beat is not None and (beat.host, beat.pid) == (self.host, self.pid):
            own = self._as_beat(min(own.age_s, beat.age_s))
        return is_alive(own, self.timeout_s)

    def _as_beat(self, age_s: float) -> Beat:
        return Beat(SUPERVISOR, "following", age_s, self.pid, self.host, finished=self.released)


def take(run: RunDir, timeout_s: float) -> None:
    """Make this process the run's owner.

    Raises:
        OwnedError: another one follows it.
    """
    before = newest(run)
    if before is not None and before.is_alive(run):
        raise _owned(run, before)
    number = int(before.path.stem) + 1 if before else 1
    make_dirs(_folder(run))
    path = _folder(run) / f"{number:06d}.json"
    complete = _folder(run) / f".{secrets.token_hex(8)}.tmp"
    write_json(complete, _body(os.getpid(), timeout_s))
    try:
        os.link(complete, path)  # unlike a rename, refuses a name that is taken
    except FileExistsError:
        raise _owned(run, _read(path)) from None
    finally:
        complete.unlink()
    fsync_dir(path.parent)


def hand_over(run: RunDir, pid: int) -> None:
    """Make process `pid` of this host the owner in place of this one."""
    mine = _mine(run)
    if mine is not None:
        write_json(mine.path, _body(pid, mine.timeout_s))


def release(run: RunDir) -> None:
    """Say that this process follows the run no longer; nothing to do when it does not own it."""
    mine = _mine(run)
    if mine is not None:
        write_json(mine.path, {**_body(mine.pid, mine.timeout_s), "released": True})


def newest(run: RunDir) -> Owner | None:
    """The last owner, alive or not; None for a run that never had one.

    Raises:
        CorruptFileError: its file is damaged; names it.
    """
    paths = sorted(_folder(run).glob("[0-9]*.json"), key=lambda path: int(path.stem))
    return _read(paths[-1]) if paths else None


def is_alive(beat: Beat, timeout_s: float) -> bool:
    """Whether a heartbeat's writer lives: asked of this host when it ran here, else of the beat's age.

    A process that has ended and whose parent has not looked yet (a zombie) does not.
    """
    if beat.finished or beat.age_s > timeout_s:
        return False
    if beat.host != socket.gethostname():
        return True
    try:
        return psutil.Process(beat.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def _folder(run: RunDir) -> Path:
    return run.path / "owners"


def _body(pid: int, timeout_s: float) -> dict[str, Any]:
    return {"host": socket.gethostname(), "pid": pid, "timeout_s": timeout_s, "released": False}


def _mine(run: RunDir) -> Owner | None:
    owner = newest(run)
    here = owner is not None and (owner.host, owner.pid) == (socket.gethostname(), os.getpid())
    return owner if here else None


def _read(path: Path) -> Owner:
    body = read_json(path)
    try:
        return Owner(
            path, str(body["host"]), int(body["pid"]), float(body["timeout_s"]), body["released"] is True
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(
            f"{path}: expected an owner, found {str(body)[:200]}. When nothing runs in {path.parent.parent}, "
            "remove the file."
        ) from error


def _owned(run: RunDir, owner: Owner) -> OwnedError:
    return OwnedError(
        f"{run.path}: process {owner.pid} on {owner.host} follows this run already; end it after a checkpoint "
        f"(rods cancel {run.path}), or, if it is dead, wait until it has been silent for {owner.timeout_s:g} s "
        "(launch.heartbeat_timeout_s)"
    )
