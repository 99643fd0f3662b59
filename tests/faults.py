"""Faults between any two file operations, without a hook in the product.

Every change to the shared directory goes through a handful of functions of `os`. This module puts itself in
their place: the n-th call that matches dies by SIGKILL (before it, after it, or half-way through a write),
raises an errno, or (listings) does not see yet what is younger than a delay. Since every file operation is
covered, so is every point between a write, its fsync and its rename.

In this process: `with injected(Fault(...)):`. In a child made by fork: `install([...])` there. In a process of
its own: `environment([...])`, with a `sitecustomize.py` in front of its path (`write_sitecustomize`).
"""

from __future__ import annotations

import builtins
import errno
import fnmatch
import functools
import io
import json
import os
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

CHANGES = (
    "open",
    "write",
    "fsync",
    "rename",
    "replace",
    "link",
    "unlink",
    "utime",
    "mkdir",
    "rmdir",
    "truncate",
    "ftruncate",
)
READS = ("open_to_read", "listdir", "scandir", "stat", "lstat")
VARIABLE = "RODS_TEST_FAULTS"

_FUNCTIONS = {name: getattr(os, name) for name in (*CHANGES, *READS) if name != "open_to_read"}
_IO_OPEN = io.open
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class SimulatedCrash(BaseException):
    """Stands for the process's death where the test must live on. `finally` still runs, unlike after a kill."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong, and where.

    Attributes:
        effect: "kill" (SIGKILL to itself), "freeze" (SIGSTOP, until somebody sends SIGCONT), "crash" (raises
            SimulatedCrash), "raise" (OSError of `error`), or "hide" (listings leave out entries whose inode
            changed less than `hide_s` ago).
        at: the first matching call that it meets, from 1.
        times: how many matching calls from there on; None: all.
        moment: "before" the call, "after" it, or "within": half of a write is done first (others: before).
        operations: names out of CHANGES and READS.
        path: fnmatch pattern of the file's absolute path; of a rename or link: the source's or the target's.
        error: name of an errno.
        while_file: the fault is there only while this file exists.
        report: a file that gets one line of JSON, naming the call, before the effect.
    """

    effect: Literal["kill", "freeze", "crash", "raise", "hide"]
    at: int = 1
    times: int | None = 1
    moment: Literal["before", "within", "after"] = "before"
    operations: tuple[str, ...] = CHANGES
    path: str = "*"
    error: str = "EIO"
    hide_s: float = 0.0
    while_file: str = ""
    report: str = ""


class _Armed:
    """A fault and how many matching calls there were."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.calls = 0
        self._lock = threading.Lock()

    def meets(self, operation: str, paths: Sequence[str]) -> bool:
        """Whether this call is one that the fault strikes."""
        fault = self.fault
        if operation not in fault.operations or not any(fnmatch.fnmatch(path, fault.path) for path in paths):
            return False
        if fault.while_file and not _exists(fault.while_file):
            return False
        with self._lock:
            self.calls += 1
            number = self.calls - fault.at
        return number >= 0 and (fault.times is None or number < fault.times)

    def strike(self, operation: str, paths: Sequence[str]) -> None:
        """Report, then die or raise."""
        fault = self.fault
        if fault.report:
            _report(fault, operation, paths, self.calls)
        if fault.effect == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault.effect == "freeze":
            os.kill(os.getpid(), signal.SIGSTOP)
            return
        if fault.effect == "crash":
            raise SimulatedCrash(f"{fault.moment} {operation} of {paths[0]}")
        number = getattr(errno, fault.error)
        raise OSError(number, os.strerror(number), paths[0])


_armed: list[_Armed] = []


def install(faults: Sequence[Fault]) -> None:
    """Arm `faults` in this process, in place of those that were armed; none: everything as it was."""
    _armed[:] = [_Armed(fault) for fault in faults]
    named = {name for fault in faults for name in fault.operations}
    if "open_to_read" in named:
        named.add("open")
    for name, call in _FUNCTIONS.items():
        setattr(os, name, _struck(name, call) if name in named else call)
    # What pathlib and everybody else calls; the writes behind it are C and are not seen.
    io.open = builtins.open = _struck("open", _IO_OPEN) if "open" in named else _IO_OPEN


@contextmanager
def injected(*faults: Fault) -> Iterator[None]:
    """`install` for the time of a block."""
    install(faults)
    try:
        yield
    finally:
        install([])


def environment(faults: Sequence[Fault]) -> dict[str, str]:
    """Variables that make `sitecustomize` arm `faults` in a process and in all that it starts."""
    return {VARIABLE: json.dumps([asdict(fault) for fault in faults])}


def install_from_environment() -> None:
    """What a process's `sitecustomize` calls. Nothing without the variable."""
    text = os.environ.get(VARIABLE)
    if text:
        install([Fault(**{**entry, "operations": tuple(entry["operations"])}) for entry in json.loads(text)])


def write_sitecustomize(folder: Path) -> None:
    """Make Python arm the environment's faults at its start, in processes with `folder` on PYTHONPATH."""
    (folder / "rods_test_faults.py").write_text(Path(__file__).read_text())
    (folder / "sitecustomize.py").write_text(
        "import rods_test_faults\n\nrods_test_faults.install_from_environment()\n"
    )


def run_in_child(action: Callable[[], object], faults: Sequence[Fault] = ()) -> int:
    """Call `action` in a forked child with `faults` armed.

    Returns:
        its status: 0 done, 1 it raised, −9 it was killed.
    """
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            install(faults)
            action()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill_at_every_point(
    prepare: Callable[[], Callable[[], object]],
    check: Callable[[], None],
    *,
    path: str = "*",
    moments: Sequence[Literal["before", "within", "after"]] = ("before", "within", "after"),
    most: int = 500,
) -> int:
    """Run an action again and again, each time killed one file operation later, until it lives to its end.

    Args:
        prepare: puts everything as it was and returns the action, which runs in a child.
        check: called after each death, in this process.
        path: as in `Fault`.
        most: an action with more operations than this is an error of the test.

    Returns:
        how many deaths there were.
    """
    deaths = 0
    for moment in moments:
        for number in range(1, most):
            status = run_in_child(prepare(), [Fault("kill", at=number, moment=moment, path=path)])
            if status == 0:
                break
            if status != -signal.SIGKILL:
                raise AssertionError(f"killed {moment} call {number}: the child ended with {status} instead")
            deaths += 1
            check()
        else:
            raise AssertionError(f"more than {most} file operations")
    return deaths


def _struck(function: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`, with the armed faults around it."""

    @functools.wraps(call)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        paths = _paths(function, args)
        name = _operation(function, args, kwargs)
        met = [armed for armed in _armed if paths and armed.meets(name, paths)]
        striking = [armed for armed in met if armed.fault.effect != "hide"]
        for armed in striking:
            if armed.fault.moment == "within" and name == "write":
                call(args[0], bytes(args[1])[: max(1, len(args[1]) // 2)])
            if armed.fault.moment != "after":
                armed.strike(name, paths)
        result = call(*args, **kwargs)
        for armed in striking:
            if armed.fault.moment == "after":
                armed.strike(name, paths)
        hidden = [armed.fault.hide_s for armed in met if armed.fault.effect == "hide"]
        return _without_newest(name, paths[0], result, max(hidden)) if hidden else result

    return wrapper


def _operation(function: str, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """The name of a call; an `open` that changes nothing has its own."""
    if function != "open":
        return function
    mode = args[1] if len(args) > 1 else kwargs.get("mode", kwargs.get("flags", "r"))
    writes = mode & _WRITING if isinstance(mode, int) else set(mode) & set("wax+")
    return "open" if writes else "open_to_read"


def _without_newest(name: str, folder: str, result: Any, delay_s: float) -> Any:
    """A listing as a client sees it whose view is `delay_s` old."""
    newest = time.time() - delay_s
    if name == "listdir":
        return [entry for entry in result if _changed(os.path.join(folder, entry)) <= newest]
    if name == "scandir":
        return _Entries(iter([entry for entry in result if _changed(entry.path) <= newest]))
    return result


class _Entries:
    """What `os.scandir` returns, as far as the standard library uses it."""

    def __init__(self, entries: Iterator[Any]) -> None:
        self._entries = entries

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> Iterator[Any]:
        return self._entries

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def close(self) -> None:
        """Nothing is open."""


def _changed(path: str) -> float:
    try:
        return float(_FUNCTIONS["lstat"](path).st_ctime)
    except FileNotFoundError:
        return 0.0


def _paths(function: str, args: Sequence[Any]) -> list[str]:
    """Absolute paths that a call is about; none for a pipe, a terminal or a socket."""
    count = 2 if function in ("rename", "replace", "link") else 1
    found = [_path_of(arg) if isinstance(arg, int) else _absolute(arg) for arg in args[:count]]
    return [path for path in found if path]


def _absolute(path: Any) -> str:
    return os.path.abspath(os.fsdecode(path)) if isinstance(path, str | bytes | os.PathLike) else ""


def _path_of(descriptor: int) -> str:
    try:
        mode = os.fstat(descriptor).st_mode
        return os.readlink(f"/proc/self/fd/{descriptor}") if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else ""
    except OSError:
        return ""


def _exists(path: str) -> bool:
    try:
        _FUNCTIONS["stat"](path)
    except FileNotFoundError:
        return False
    return True


def _report(fault: Fault, operation: str, paths: Sequence[str], number: int) -> None:
    moment = "before" if fault.moment == "within" and operation != "write" else fault.moment
    line = json.dumps({"moment": moment, "operation": operation, "path": paths[-1], "call": number})
    descriptor = _FUNCTIONS["open"](fault.report, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    _FUNCTIONS["write"](descriptor, line.encode() + b"\n")
    os.close(descriptor)
