"""The roles as processes of this machine, started by submitit's LocalExecutor.

Each role has a session of its own, so that a Ctrl-C at the terminal reaches the supervisor alone, and so that
everything a role started can be ended by the id of one process group.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from submitit.local.local import LocalExecutor, LocalJob

from launchers.controller import LOG_VARIABLE
from launchers.jobs import START
from launchers.resources import TRAIN, resources
from rods.config import Config
from rods.exchange import replica

RoleFunction = Callable[[str, str, int], int]  # (run directory, role, attempt) -> exit status


def log_stem(run_dir: Path, role: str, attempt: int) -> Path:
    """A role's logs without their endings ".out" and ".err"."""
    return run_dir / "attempts" / f"{attempt:04d}" / role


def role_environment(config: Config, run_dir: Path, role: str, attempt: int) -> dict[str, str]:
    """What a role's process adds to its parent's environment: the frozen code first, its threads."""
    threads = {TRAIN: config.training.threads}.get(role) or getattr(config.cluster, role).cpus_per_task
    return {
        "PYTHONPATH": str(run_dir / "code"),
        "PYTHONSAFEPATH": "1",  # else `python -m` would put the working directory before the frozen code
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",  # the roles share this machine: threads that spin take the other's core
        "RODS_ROLE": role,
        replica.VARIABLE: "0",  # one process a role, whatever the user's shell says
        "RODS_ATTEMPT": str(attempt),
        LOG_VARIABLE: str(log_stem(run_dir, role, attempt)),
    }


class RoleProcess:
    """A started role: the controller's process, whose group holds all that the role starts.

    Args:
        role: the role's name.
        process: the controller; leader of its own session.
        log: the role's logs without ".out" and ".err".
    """

    def __init__(self, role: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.role = role
        self.pid = process.pid
        self.log = log
        self._process = process

    def poll(self) -> int | None:
        """The exit status (128 + n after signal n), None while it runs. Ends what an ended role left over."""
        if self._process.returncode is None and self._has_ended():
            # The ended leader is not reaped yet, so its id cannot have gone to a stranger.
            self.signal(signal.SIGKILL)
            self._process.wait()
        code = self._process.returncode
        return 128 - code if code is not None and code < 0 else code

    def _has_ended(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to everything in the role's process group."""
        if self._process.returncode is None:
            os.killpg(self.pid, number)

    def error_tail(self, lines: int = 8) -> str:
        """The last non-empty lines of the role's .err file, "" when it has none."""
        try:
            text = self.log.with_suffix(".err").read_text(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])


class RoleExecutor(LocalExecutor):
    """LocalExecutor whose controller is `launchers.controller`, in a session of its own.

    Args:
        folder: submitit's folder.
        environment: added to this process's environment for the role.
    """

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        super().__init__(folder)
        self._environment = environment

    def _submit_command(self, command: str) -> LocalJob[Any]:
        environment = {
            **os.environ,
            **self._environment,
            "SUBMITIT_EXECUTOR": "local",
            "SUBMITIT_LOCAL_COMMAND": command,
            "SUBMITIT_LOCAL_NTASKS": "1",
            "SUBMITIT_LOCAL_NODEID": "0",
            "SUBMITIT_LOCAL_JOB_NUM_NODES": "1",
            "SUBMITIT_LOCAL_TIMEOUT_S": "0",
            "SUBMITIT_LOCAL_SIGNAL_DELAY_S": "0",
            "SUBMITIT_LOCAL_WITH_SHELL": "",
            "SUBMITIT_STDERR_TO_STDOUT": "",
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "launchers.controller", str(self.folder)],
            env=environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        return LocalJob(folder=self.folder, job_id=str(process.pid), process=process)


def start(config: Config, run_dir: Path, role: str, attempt: int, function: RoleFunction) -> RoleProcess:
    """Start one role of a frozen run and return at once.

    Args:
        function: a top-level function; it is imported again in the role's process, from the frozen code.
    """
    log = log_stem(run_dir, role, attempt)
    log.parent.mkdir(parents=True, exist_ok=True)
    (log.parent / START).write_text("local\n")  # a batch file submitted by hand takes the next attempt
    executor = RoleExecutor(log.parent / "submitit", role_environment(config, run_dir, role, attempt))
    job = executor.submit(function, str(run_dir), role, attempt)
    assert isinstance(job, LocalJob)
    assert job._process is not None
    return RoleProcess(role, job._process, log)


def describe(config: Config, run_dir: Path, attempt: int) -> str:
    """The commands that `start` amounts to, one a role, for a person to read or run by hand."""
    lines = []
    for part in resources(config):
        environment = role_environment(config, run_dir, part.role, attempt)
        settings = " ".join(
            f"{key}={environment[key]}" for key in ("PYTHONPATH", "PYTHONSAFEPATH", "OMP_NUM_THREADS")
        )
        lines.append(f"{settings} {sys.executable} -m rods.roles.entry {run_dir} {part.role} {attempt}")
    return "\n".join(lines)
