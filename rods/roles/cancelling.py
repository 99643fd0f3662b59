"""End a run as a person wants it: cleanly, with a checkpoint to go on from, or at once.

A stop file asks the roles, wherever they run, to save their state and end. Slurm's queue does not read it: what
waits there is cancelled, and so is a job that comes back to the queue meanwhile.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from launchers import started
from launchers.resources import TRAIN
from launchers.scheduler import Scheduler
from launchers.states import Phase
from rods.errors import RodsError
from rods.exchange import owner, stop
from rods.exchange.rundir import RunDir
from rods.watch.jobs import JobState, look

REASON = "rods cancel"
POLL_S = 2.0
_SCANCEL_S = 60.0
_SECOND_SIGNAL_S = 1.0


class CancelError(RodsError):
    """A run that cannot be ended from here."""


@dataclass(frozen=True)
class Target:
    """What of a run goes on.

    Attributes:
        jobs: its Slurm jobs that are not over.
        pid, host: of the process that follows a run of one machine; None for none.
    """

    jobs: tuple[JobState, ...]
    pid: int | None
    host: str

    @property
    def goes_on(self) -> bool:
        """Whether there is anything to end."""
        return bool(self.jobs) or self.pid is not None

    def __str__(self) -> str:
        if self.jobs:
            return ", ".join(
                f"job {job.job_id} ({'+'.join(job.roles)}: {job.state.lower()})" for job in self.jobs
            )
        return f"process {self.pid} on {self.host}" if self.pid is not None else "nothing"


def scancel(ids: Sequence[str]) -> str:
    """Cancel jobs; what Slurm said when it refused, "" when it did not."""
    try:
        done = subprocess.run(
            ["scancel", *ids], capture_output=True, text=True, timeout=_SCANCEL_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return " ".join(done.stderr.split()) if done.returncode else ""


@dataclass
class Canceller:
    """Ends one run.

    Args:
        say: told what is done, a line each.
        slurm: asked about the jobs; its answers must not be older than `POLL_S`.
        scancel: cancels jobs; returns why it failed.
    """

    run: RunDir
    say: Callable[[str], None]
    slurm: Scheduler
    scancel: Callable[[Sequence[str]], str] = scancel
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _cancelled: set[str] = field(default_factory=set)

    def target(self) -> Target:
        """What goes on now.

        Raises:
            CancelError: Slurm does not answer, so that it cannot be told.
        """
        submitted = started.of_run(self.run)
        jobs = look(submitted, self.slurm.query(job.job_id for job in submitted))
        silent = [job for job in jobs if job.phase == Phase.unknown and not job.gone]
        if silent:
            raise CancelError(
                f"{self.run.path}: expected Slurm's answer about job {silent[0].job_id}, found: {silent[0].trouble}; "
                "try again where squeue works"
            )
        open_jobs = tuple(job for job in jobs if job.phase not in (Phase.over, Phase.unknown) or job.returns)
        following = owner.newest(self.run)
        alive = not submitted and following is not None and following.is_alive(self.run)
        return Target(
            open_jobs, following.pid if following and alive else None, following.host if following else ""
        )

    def cleanly(self, wait_s: float) -> bool:
        """Ask for a checkpoint and the end, and wait so long; returns whether nothing goes on any more.

        Raises:
            CancelError: see `target`.
            OSError: the stop file cannot be written.
        """
        deadline, told = self.clock() + wait_s, False
        while (target := self.target()).goes_on:
            self._cancel([job for job in target.jobs if self._is_idle(job, target)])
            if not all(job.phase == Phase.waiting or job.returns for job in target.jobs) or target.pid:
                # Said again at each look: a start that began meanwhile clears what was asked of the one before.
                stop.request(self.run, self.run.last_attempt(), REASON)
                if not told:
                    self.say("asked the roles to save their state and end")
                told = True
            if self.clock() >= deadline:
                return False
            self.sleep(POLL_S)
        return True

    def at_once(self, wait_s: float) -> bool:
        """End everything now, without a checkpoint; returns whether nothing goes on any more.

        Raises:
            CancelError: see `target`; or the run's process is on another machine.
        """
        target = self.target()
        if target.pid is not None:
            self._signal_twice(target.pid, target.host)
        deadline = self.clock() + wait_s
        while target.goes_on:
            self._cancel([job for job in target.jobs if job.phase != Phase.ending])
            if self.clock() >= deadline:
                return False
            self.sleep(POLL_S)
            target = self.target()
        return True

    def _is_idle(self, job: JobState, target: Target) -> bool:
        """A job without a state to save: one that waits, or daemons whose trainer has ended."""
        trainers = [other for other in target.jobs if TRAIN in other.roles]
        return job.phase == Phase.waiting or job.returns or (TRAIN not in job.roles and not trainers)

    def _cancel(self, jobs: Sequence[JobState]) -> None:
        # Slurm takes its time to end a job; one that came back to the queue is cancelled again.
        ids = [job.job_id for job in jobs if job.phase == Phase.waiting or job.job_id not in self._cancelled]
        if not ids:
            return
        self._cancelled.update(ids)
        trouble = self.scancel(ids)
        self.say(f"scancel {' '.join(ids)}{': ' + trouble if trouble else ''}")

    def _signal_twice(self, pid: int, host: str) -> None:
        """A supervisor's own way: the second signal ends both roles at once."""
        if host != socket.gethostname():
            raise CancelError(
                f"{self.run.path}: its process {pid} is on {host}, this is {socket.gethostname()}; run it there, or "
                "without --now"
            )
        for _ in range(2):
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                return
            self.sleep(_SECOND_SIGNAL_S)
