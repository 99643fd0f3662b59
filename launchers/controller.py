"""The process that holds one role on this machine: submitit's controller with real exit codes and named logs.

submitit's own controller always exits with 0 and names its logs by process id; the supervisor must know how a
role ended, and a person must find its log. Run as `python -m launchers.controller FOLDER`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from submitit.local.local import Controller

LOG_VARIABLE = "RODS_LOG"  # path of the role's logs without ".out" and ".err"
ORPHAN_STOP_S = 120.0  # for a clean stop after the supervisor was killed
_POLL_S = 1.0
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
SIGNALLED = 128  # shell convention: 128 + signal number


class RoleController(Controller):
    """Starts one task, with its output in `$RODS_LOG.out` and `$RODS_LOG.err`, and remembers how it ended."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.exit_code = 1
        self._supervisor = os.getppid()

    def start_tasks(self) -> None:
        """Open the logs (appending: a second start must not lose the first one's) and start the task."""
        log = os.environ[LOG_VARIABLE]
        self.stdouts, self.stderrs = [open(f"{log}.out", "a")], [open(f"{log}.err", "a")]  # noqa: SIM115
        environment = dict(
            os.environ,
            SUBMITIT_LOCAL_LOCALID="0",
            SUBMITIT_LOCAL_GLOBALID="0",
            SUBMITIT_LOCAL_JOB_ID=self.pid,
        )
        self.tasks = [
            subprocess.Popen(
                self.command,
                env=environment,
                stdout=self.stdouts[0],
                stderr=self.stderrs[0],
                preexec_fn=partial(_die_with_parent, self.pid),
            )
        ]

    def wait(self, freq: int = 1) -> list[int | None]:
        """Block until the task ends; the run's time limit is the supervisor's business, not the controller's.

        When the supervisor itself was killed, the task is asked to stop, and then everything in this process's
        group is ended: the task, what it started, and the controller.
        """
        code = self._poll_until(lambda: os.getppid() != self._supervisor)
        if code is None:
            self._forward_signal(signal.SIGTERM)
            deadline = time.monotonic() + ORPHAN_STOP_S
            self._poll_until(lambda: time.monotonic() > deadline)
            os.killpg(0, signal.SIGKILL)
        assert code is not None
        self.exit_code = code if code >= 0 else SIGNALLED - code
        return [code]

    def _poll_until(self, given_up: Callable[[], bool]) -> int | None:
        """The task's status as Popen gives it, or None when `given_up` says so first."""
        while not given_up():
            try:
                return self.tasks[0].wait(timeout=_POLL_S)
            except subprocess.TimeoutExpired:
                continue
        return self.tasks[0].poll()


def _die_with_parent(parent: str) -> None:
    """Runs in the task before its program: ask it to stop when the controller dies and cannot ask any more."""
    # The controller's own handler, inherited until the program starts, would swallow the signal.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):
        os.kill(os.getpid(), signal.SIGTERM)


def main() -> int:
    """The controller's whole life; its exit status is the task's."""
    controller = RoleController(Path(sys.argv[1]))
    controller.run(max_retry=1)
    return controller.exit_code


if __name__ == "__main__":
    sys.exit(main())
