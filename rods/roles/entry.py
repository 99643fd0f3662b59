"""Where a role's process begins, on this machine and under Slurm alike.

It checks that the frozen code and configuration are what was submitted, turns signals into the one stop file
that both roles look for, and hands over to the role. By hand: `python -m rods.roles.entry RUN ROLE ATTEMPT`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

from setproctitle import setproctitle

from launchers import snapshot
from launchers.resources import SYNTHESIS, TRAIN
from rods.errors import RodsError
from rods.exchange import permissions, pressure, replica, stop
from rods.exchange.attempt import Fence
from rods.exchange.heartbeat import Heartbeat
from rods.exchange.rundir import RunDir
from rods.registry import Registry

ROLES = Registry("role", {"train": "rods.roles.train:main", "synthesis": "rods.roles.synthesize:main"})
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)


def run_role(run_dir: str, role: str, attempt: int) -> int:
    """Run one role to its end; returns 0, or ends the process with the role's exit status.

    75 (EX_TEMPFAIL) is a trainer that was stopped before its end, with a checkpoint written. A `RodsError` or an
    `OSError` (full disk) is printed without a traceback and ends the process with 1.
    """
    status = _status(run_dir, role, attempt)
    if status:
        # submitit would report a returned status as a success.
        sys.exit(status)
    return status


def _status(run_dir: str, role: str, attempt: int) -> int:
    try:
        return _run(RunDir.open(Path(run_dir)), role, attempt)
    except (RodsError, OSError) as error:
        print(f"{role}: {error}", file=sys.stderr)
        return 1


def _run(run: RunDir, role: str, attempt: int) -> int:
    # No blanks: Slurm's proctrack/linuxproc misreads such a process and cannot end it any more.
    setproctitle(f"rods-{role}:{run.name}")
    permissions.adopt_from(run.path)
    main = ROLES.get(role)
    snapshot.verify(run)
    snapshot.check_origin(run)
    stop.clear_stale(run, attempt)
    _stop_on_signals(run, role, attempt)
    heartbeat = Heartbeat(run.heartbeats, replica.writer(role) if role == SYNTHESIS else role)
    heartbeat.beat("starting", attempt=attempt)
    pause = pressure.Pause(
        role, lambda: stop.is_requested(run, attempt), partial(heartbeat.beat, attempt=attempt)
    )
    with pressure.using(pause):
        status = int(main(str(run.path), attempt))
        if status == 0 and role == TRAIN:
            Fence(run, attempt).check()
            # Nobody supervises a Slurm job: this is what ends the synthesis there.
            stop.finish(run, attempt)
    if status in (0, os.EX_TEMPFAIL):
        heartbeat.finish(attempt=attempt)
    return status


def _stop_on_signals(run: RunDir, role: str, attempt: int) -> None:
    """A role that handles signals itself replaces this; submitit's own handlers would ignore SIGTERM."""

    def ask(number: int, _frame: object) -> None:
        stop.request_by_signal(run, attempt, f"{role} received {signal.Signals(number).name}")

    for number in _SIGNALS:
        signal.signal(number, ask)


def run_slurm_role(run_dir: str) -> int:
    """`run_role` with role and attempt from the batch file's environment.

    A trainer that was asked to stop before the end of the run (Slurm's USR2 ahead of the time limit) has
    saved its state by now: the job goes back into the queue.
    """
    role, attempt = os.environ["RODS_ROLE"], int(os.environ["RODS_ATTEMPT"])
    status = _status(run_dir, role, attempt)
    if role == TRAIN and status == os.EX_TEMPFAIL:
        subprocess.run(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]], check=True, timeout=60)
        return 0
    if status:
        sys.exit(status)
    return status


if __name__ == "__main__":
    run_role(sys.argv[1], sys.argv[2], int(sys.argv[3]))
