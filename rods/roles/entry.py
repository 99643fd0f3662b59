"""Where a role's process begins: `python -m rods.roles.entry RUN ROLE ATTEMPT` here, `… RUN` inside a Slurm job.

On this machine a supervisor looks after the roles and says how the run went; inside a Slurm job nobody does, and the
roles do it themselves (`rods.roles.slurm_role`).
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from launchers.resources import TRAIN
from rods.errors import RodsError
from rods.exchange import replica, stop
from rods.exchange.rundir import RunDir
from rods.roles.apart import Apart
from rods.roles.perform import perform
from rods.roles.slurm_role import SIGNALS, Companion, Trainer


def run_role(run_dir: str, role: str, attempt: int) -> int:
    """Run one role to its end; returns 0, or ends the process with the role's exit status (`perform.Ended`)."""
    run = RunDir.open(Path(run_dir))
    _stop_on_signals(run, role, attempt)
    status = perform(run, role, attempt).status
    if status:
        # submitit would report a returned status as a success.
        sys.exit(status)
    return status


def run_slurm_role(run_dir: str) -> int:
    """Run the role of this task to its end; returns the exit status for its process.

    Which role, attempt and job it is, the batch file's environment says: RODS_ROLE, RODS_ATTEMPT, RODS_SERIES (a daemon
    in a job of its own), RODS_REQUEUE (0: nothing is put back into the queue), and Slurm's own variables.

    Raises:
        RodsError: no run directory there.
    """
    run = replica.open_run(Path(run_dir))
    role, attempt = os.environ["RODS_ROLE"], int(os.environ["RODS_ATTEMPT"])
    try:
        if run.series:
            return Apart(run, role, attempt).run()
        return Trainer(run, attempt).run() if role == TRAIN else Companion(run, role, attempt).run()
    finally:
        # Python takes its handlers off while it ends, and the signal's own effect would be the process's status.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def _stop_on_signals(run: RunDir, role: str, attempt: int) -> None:
    """A role that handles signals itself replaces this; submitit's own handlers would ignore SIGTERM."""

    def ask(number: int, _frame: object) -> None:
        stop.request_by_signal(run, attempt, f"{role} received {signal.Signals(number).name}")

    for number in SIGNALS:
        signal.signal(number, ask)


def main() -> int:
    """The process's whole life; what is wrong with the run directory is a message, not a traceback."""
    try:
        if len(sys.argv) == 2:
            return run_slurm_role(sys.argv[1])
        return run_role(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    except RodsError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
