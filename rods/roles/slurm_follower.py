"""Follow a submitted job from the login node: nothing is trained here, and Ctrl-C ends only the following."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from launchers.slurm import FAILED_STATES
from rods.exchange import stop
from rods.exchange.rundir import RunDir
from rods.roles.outcome import Outcome, Status
from rods.watch.progress import Forgiving

POLL_S = 2.0


class Job(Protocol):
    """What is asked of a submitted job; `launchers.slurm.HetJob` is one."""

    @property
    def job_id(self) -> str:
        """The scheduler's id."""

    @property
    def state(self) -> str:
        """Slurm's word for its state; submitit says UNKNOWN until accounting knows it."""


def follow(
    run: RunDir, job: Job, on_tick: Callable[[], None], sleep: Callable[[float], None] = time.sleep
) -> Outcome:
    """Block until the job has ended for good; a state that is not known to be final is waited on."""
    shown = Forgiving(on_tick)
    try:
        while (outcome := judge(run, job.job_id, job.state)) is None:
            shown.tick()
            sleep(POLL_S)
    except KeyboardInterrupt:
        return Outcome(
            Status.interrupted,
            f"no longer following; job {job.job_id} goes on (scancel {job.job_id} stops it)",
        )
    return outcome


def judge(run: RunDir, job_id: str, state: str) -> Outcome | None:
    """What a job's state means for the run; None while it may still go on."""
    word = state.split()[0].rstrip("+") if state.split() else "UNKNOWN"  # "CANCELLED by 1000"
    if word == "COMPLETED":
        if stop.is_finished(run):
            return Outcome(Status.finished, "the run finished")
        return Outcome(Status.stopped, f"job {job_id} completed before the end of the run")
    if word in FAILED_STATES:
        return Outcome(Status.failed, f"job {job_id} ended as {state}; its output lies in {run.attempts}")
    return None
