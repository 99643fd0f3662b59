"""Runs inside the nursery's children: the supervisor and the two roles, forked instead of started.

A start costs milliseconds instead of the ten seconds that the imports take. Everything else is the product's
own path: `rods.roles.launching.launch` with `launch.resume`, the supervisor, and the entry of a role.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faults
from faults import Fault

from launchers import local, plan, snapshot
from rods.config import Config, from_mapping
from rods.errors import RodsError
from rods.exchange.rundir import RunDir
from rods.registry import Registry
from rods.roles import entry, launching, perform, supervisor

SUPERVISOR, TRAIN, SYNTHESIS = "supervisor", "train", "synthesis"
VICTIMS = (SUPERVISOR, TRAIN, SYNTHESIS)
REFUSED = 2
_PR_SET_PDEATHSIG = 1
_ROLES = {"train": "soak.policy:main", "synthesis": "rods.roles.synthesize:main"}


def pids_folder(run_dir: Path) -> Path:
    """Where the processes of the present attempt note their ids: beside the run, which is not disturbed."""
    return run_dir.with_name(f"{run_dir.name}.pids")


@dataclass
class ForkedRole:
    """A role as the supervisor sees it."""

    role: str
    pid: int
    log: Path
    _code: int | None = None

    def poll(self) -> int | None:
        """The exit status, 128 + n after signal n; what the role left over is ended."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self._code = code if code >= 0 else 128 - code
        return self._code

    def signal(self, number: signal.Signals) -> None:
        """Signal the role's group."""
        if self._code is None:
            os.killpg(self.pid, number)

    def error_tail(self) -> str:
        """The end of its error output."""
        path = self.log.with_suffix(".err")
        return path.read_text()[-2000:] if path.exists() else ""


def supervise(run_dir: Path, victim: str, fault: Fault | None) -> int:
    """Continue the run as `launch.py launch.resume=…` does, in this process; returns its exit status."""
    (pids_folder(run_dir) / SUPERVISOR).write_text(str(os.getpid()))
    local.start = _starter(victim, fault)  # type: ignore[assignment]
    launching.conclude = lambda run, outcome, console: print(outcome.sentence)  # type: ignore[assignment]
    supervisor.POLL_S = 0.02
    if victim == SUPERVISOR and fault is not None:
        faults.install([fault])
    config = snapshot.load_config(RunDir.open(run_dir))
    settings = config.to_dict()
    settings["launch"]["resume"] = str(run_dir)
    config = from_mapping(settings)
    try:
        return launching.launch(config, plan.build(config), [])
    except (RodsError, OSError) as error:
        print(f"launch.py: {error}")
        return REFUSED


def _starter(victim: str, fault: Fault | None) -> Callable[..., ForkedRole]:
    def start(config: Config, run_dir: Path, role: str, attempt: int, function: Any) -> ForkedRole:
        log = local.log_stem(run_dir, role, attempt)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            faults.install([fault] if fault is not None and role == victim else [])
            (pids_folder(run_dir) / role).write_text(str(os.getpid()))
            become(log, parent)
            leave(lambda: entry.run_role(str(run_dir), role, attempt))
        return ForkedRole(role, pid, log)

    return start


def lone_role(run_dir: str, role: str, attempt: int, fault: Fault | None) -> int:
    """One role without a supervisor; returns its exit status."""
    if fault is not None:
        faults.install([fault])
    return entry.run_role(run_dir, role, attempt)


def become(log: Path, parent: int) -> None:
    """A session and logs of its own; asked to stop when the parent dies, as the controller does."""
    os.setsid()
    # First of all: the supervisor's handlers, which a fork inherits, would only count the signal.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)
    log.parent.mkdir(exist_ok=True)
    for descriptor, suffix in ((1, ".out"), (2, ".err")):
        target = os.open(log.with_suffix(suffix), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        os.dup2(target, descriptor)
    perform.ROLES = Registry("role", _ROLES)


def leave(action: Callable[[], int]) -> None:
    """End this process with what `action` returns, without the parent's cleanup."""
    status = 1
    try:
        status = action()
    except SystemExit as stopped:
        status = stopped.code if isinstance(stopped.code, int) else 1
    except BaseException:  # noqa: BLE001  # whatever it is belongs into the log, then the process ends
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def noted(run_dir: Path) -> dict[str, int]:
    """Process ids by role, of those that have got as far as noting theirs."""
    texts = {path.name: path.read_text() for path in pids_folder(run_dir).iterdir()}
    return {name: int(text) for name, text in texts.items() if text}


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rsplit(")", 1)[1].split()[0] != "Z"
