"""When the shared disk is full, read-only or stumbles: wait, say why, or try again, in one place.

A run of days must not end because somebody else filled the disk for an hour. Everything that writes to the run
directory goes through `attempt`, and what happens to a full disk is decided by a policy that a role sets at its
start: `Pause` waits until space returns. Without one (tools, tests) the error is raised at once.

What is repeated is always a whole action that left nothing behind when it failed: a file is written anew, never
synced a second time, since after a failed fsync the kernel may have dropped its pages and call them clean.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from rods.errors import RodsError
from rods.exchange.usage import advice

FULL = (errno.ENOSPC, errno.EDQUOT)
TRANSIENT = (errno.EIO, errno.ESTALE)
PAUSED = "paused: disk full"
_BACKOFF_S = (0.05, 0.2, 1.0)  # after an input/output error, or a handle that the server forgot
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.25, 30.0  # between two looks at a full disk
_SLICE_S = 0.25  # between two looks at the stop request meanwhile
_PROBE_BLOCKS, _PROBE_BLOCK_BYTES = 16, 2**16
_Result = TypeVar("_Result")


class StorageError(RodsError, OSError):
    """The file system refuses; `errno` and `filename` are those of the system call."""

    def __str__(self) -> str:
        return str(self.strerror)


class DiskFullError(StorageError):
    """No space, no inodes or no quota left. What was there before is whole."""


class ReadOnlyError(StorageError):
    """The file system takes no writes any more. What was there before is whole."""


class UnreliableStorageError(StorageError):
    """Input/output errors or stale handles that did not go away."""


class Policy(Protocol):
    """What to do about a full disk."""

    def wait(self, shortage: DiskFullError, waits: int) -> None:
        """Return when the action should be tried again; raise to give up. `waits`: how often it was before."""

    def relieved(self) -> None:
        """The action that waited has succeeded."""


class Refuse:
    """Give up at once: for tools that a person can start again."""

    def wait(self, shortage: DiskFullError, waits: int) -> None:
        """Raise."""
        raise shortage

    def relieved(self) -> None:
        """Nothing waited."""


@dataclass
class Pause:
    """Wait until space returns, or until the role is asked to stop.

    Args:
        name: who waits, for the message.
        stop_requested: ends the wait; the shortage is then raised.
        beat: shows that the role lives and waits (a heartbeat's `beat`).
    """

    name: str
    stop_requested: Callable[[], bool]
    beat: Callable[..., None]

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None

    def wait(self, shortage: DiskFullError, waits: int) -> None:
        """Sleep a while, longer each time (a checkpoint that is tried again fills the disk again)."""
        with self._lock:
            first, self._since = self._since is None, self._since or time.monotonic()
        if first:
            say(
                f"{self.name}: paused. {shortage} It goes on by itself when space returns; a stop ends the wait."
            )
        until = time.monotonic() + min(_FIRST_WAIT_S * 2**waits, _LONGEST_WAIT_S)
        while (left := until - time.monotonic()) > 0:
            if self.stop_requested():
                raise shortage
            self.beat(PAUSED, path=str(shortage.filename))
            time.sleep(min(_SLICE_S, left))

    def relieved(self) -> None:
        """Say that it goes on."""
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            say(f"{self.name}: space is back after {time.monotonic() - since:.0f} s, going on")


class _State(threading.local):
    """Whether this thread must not wait."""

    hurried = False


_policy: Policy = Refuse()
_state = _State()


@contextlib.contextmanager
def using(policy: Policy) -> Iterator[None]:
    """Set this process's policy for the time of a block."""
    global _policy
    before, _policy = _policy, policy
    try:
        yield
    finally:
        _policy = before


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """This thread does not wait for space in the block: for what is written while waiting, or by a signal."""
    before, _state.hurried = _state.hurried, True
    try:
        yield
    finally:
        _state.hurried = before


def attempt(action: Callable[[], _Result], path: Path, transient: tuple[int, ...] = TRANSIENT) -> _Result:
    """Call `action`, which touches `path`, until it succeeds or there is no hope.

    Args:
        action: leaves nothing behind when it raises OSError, and may be called again.
        path: where; for the message.
        transient: errnos after which it is sound to call it again a few times.

    Raises:
        DiskFullError: as the policy says.
        ReadOnlyError, UnreliableStorageError: see there.
        OSError: anything else that `action` raised.
    """
    waits, delays = 0, iter(_BACKOFF_S)
    while True:
        try:
            result = action()
        except (ReadOnlyError, UnreliableStorageError):
            raise  # an inner attempt has done what can be done
        except OSError as error:
            found = error if isinstance(error, DiskFullError) else explain(error, path)
            if isinstance(found, DiskFullError):
                (Refuse() if _state.hurried else _policy).wait(found, waits)
                waits += 1
            elif error.errno not in transient or (delay := next(delays, None)) is None:
                raise found from error
            else:
                time.sleep(delay)
        else:
            if waits:
                _policy.relieved()
            return result


def explain(error: OSError, path: Path) -> OSError:
    """`error` as the StorageError it stands for, with what to do about it; other errors as they are."""
    number, reason = error.errno, f"{path}: {error.strerror}"
    if number in FULL:
        what = "the disk is full" if number == errno.ENOSPC else "your quota, or your group's, is used up"
        return DiskFullError(number, f"{reason}: {what}. {advice(path)}", str(path))
    if number == errno.EROFS:
        sentence = (
            f"{reason}. The file system was mounted read-only, or went read-only after an error of its own; "
            "what was written before is whole. Ask the administrator, then continue the run."
        )
        return ReadOnlyError(number, sentence, str(path))
    if number in TRANSIENT:
        sentence = (
            f"{reason}, also after {len(_BACKOFF_S)} more tries. The file server or the disk fails; what was "
            "written before is whole. Look at the node's kernel log, then continue the run."
        )
        return UnreliableStorageError(number, sentence, str(path))
    return error


def shortage(folder: Path) -> DiskFullError | None:
    """Whether `folder` is out of space, found by writing to it: some libraries hide the errno.

    None when the probe can be written, whatever else is wrong.
    """
    probe = folder / f".space-{os.getpid()}-{threading.get_ident()}"
    try:
        with probe.open("wb", buffering=0) as stream:
            for _ in range(_PROBE_BLOCKS):
                stream.write(bytes(_PROBE_BLOCK_BYTES))
            os.fsync(stream.fileno())
    except OSError as error:
        found = explain(error, folder)
        return found if isinstance(found, DiskFullError) else None
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()
    return None


def say(sentence: str) -> None:
    """To standard error, which may itself be a file on the full disk."""
    with contextlib.suppress(OSError):
        print(sentence, file=sys.stderr, flush=True)
