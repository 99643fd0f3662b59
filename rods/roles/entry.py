"""Where a role's process begins: `python -m rods.roles.entry RUN ROLE ATTEMPT` here, `… RUN` inside a Slurm job.

On this machine a supervisor looks after the roles and says how the run went; inside a Slurm job nobody does, and the
roles do it themselves (`rods.roles.slurm_role`).
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from rods.errors import RodsError
from rods.exchange import stop
from rods.exchange.rundir import RunDir
from rods.roles.perform import perform
from rods.roles.slurm_role import run_slurm_role

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)


def run_role(run_dir: str, role: str, attempt: int) -> int:
    """Run one role to its end; returns 0, or ends the process with the role's exit status (`perform.Ended`)."""
    run = RunDir.open(Path(run_dir))
    _stop_on_signals(run, role, attempt)
    status = perform(run, role, attempt).status
    if status:
        # submitit would report a returned status as a success.
        sys.exit(status)
    return status


def _stop_on_signals(run: RunDir, role: str, attempt: int) -> None:
    """A role that handles signals itself replaces this; submitit's own handlers would ignore SIGTERM."""

    def ask(number: int, _frame: object) -> None:
        stop.request_by_signal(run, attempt, f"{role} received {signal.Signals(number).name}")

    for number in _SIGNALS:
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
