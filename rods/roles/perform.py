"""One role's work from its checks to its end, wherever its process runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from setproctitle import setproctitle

from launchers import snapshot
from launchers.resources import SYNTHESIS, TRAIN
from rods.errors import RodsError
from rods.exchange import permissions, pressure, replica, stop
from rods.exchange.attempt import Fence
from rods.exchange.heartbeat import Heartbeat
from rods.exchange.pressure import say
from rods.exchange.rundir import RunDir
from rods.registry import Registry

_SHOWN = 5
ROLES = Registry(
    "role",
    {
        "train": "rods.roles.train:main",
        "evaluate": "rods.roles.evaluating:main",
        "synthesis": "rods.roles.synthesize:main",
    },
)


@dataclass(frozen=True)
class Ended:
    """How a role's work ended: 0, 75 (EX_TEMPFAIL: a trainer stopped before its end, with a checkpoint written
    unless the disk is full), or 1 with what it said of it.
    """

    status: int
    error: str = ""


def perform(run: RunDir, role: str, attempt: int) -> Ended:
    """Check that the frozen code and configuration are what was submitted, and run the role to its end.

    A `RodsError` or an `OSError` (full disk) is printed without a traceback; anything else is raised.
    """
    try:
        return Ended(_run(run, role, attempt))
    except (RodsError, OSError) as error:
        print(f"{role}: {error}", file=sys.stderr)
        return Ended(1, str(error))


def _run(run: RunDir, role: str, attempt: int) -> int:
    # No blanks: Slurm's proctrack/linuxproc misreads such a process and cannot end it any more.
    setproctitle(f"rods-{role}:{run.name}")
    permissions.adopt_from(run.path)
    config = snapshot.verify(run)
    # A run that only evaluates has the trainer's place filled by the evaluation.
    main = ROLES.get("evaluate" if role == TRAIN and config.evaluation.enabled else role)
    snapshot.check_origin(run)
    _tell_changes(run, role)
    stop.clear_stale(run, attempt)
    heartbeat = Heartbeat(run.heartbeats, replica.writer(role) if role == SYNTHESIS else role)
    heartbeat.beat("starting", attempt=attempt)
    pause = pressure.Pause(
        role, lambda: stop.is_requested(run, attempt), partial(heartbeat.beat, attempt=attempt)
    )
    with pressure.using(pause):
        status = _work(main, run, role, attempt)
        if status == 0 and role == TRAIN:
            Fence(run, attempt).check()
            # Nobody supervises a Slurm job: this is what ends the synthesis there.
            stop.finish(run, attempt)
    if status in (0, os.EX_TEMPFAIL):
        heartbeat.finish(attempt=attempt)
    return status


def _work(main: Callable[[str, int], int], run: RunDir, role: str, attempt: int) -> int:
    """The role's own exit status. One that was asked to stop while it waited for space has obeyed, not failed."""
    try:
        return int(main(str(run.path), attempt))
    except OSError as error:
        if error.errno not in pressure.FULL or not stop.is_requested(run, attempt):
            raise
        pressure.say(f"{role}: stopped while it waited for space; what was written before is whole. {error}")
        return os.EX_TEMPFAIL if role == TRAIN else 0


def _tell_changes(run: RunDir, role: str) -> None:
    """Other packages than at the start make a run hard to repeat; they do not stop it."""
    changes = snapshot.environment_changes(run)
    if changes:
        more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
        say(
            f"{role}: {len(changes)} package(s) are not what {run.path / snapshot.ENVIRONMENT_FILE} says: "
            f"{'; '.join(changes[:_SHOWN])}{more}"
        )
