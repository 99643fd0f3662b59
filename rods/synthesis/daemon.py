"""The synthesis job's loop: claim seeds, work on many at once, answer every one, hand back what is
unfinished.

For each seed there is exactly one answer in the variants queue, published or dropped: that is how the
trainer's epoch barrier knows that a seed is closed. The answer is put before the claim is committed, and
putting is idempotent by key, so a death in between changes nothing but the work done twice. A message that
cannot be worked on is answered as dropped and kept in quarantine; it never ends the job.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from typing import Any

from rods.errors import RodsError
from rods.exchange import stop
from rods.exchange.attempt import Fence
from rods.exchange.heartbeat import Heartbeat
from rods.exchange.queue import Claim, LeaseLostError
from rods.exchange.rundir import RunDir
from rods.synthesis.agents import Backend
from rods.synthesis.pipeline import Outcome, Pipeline
from rods.synthesis.records import ROLE, Records
from rods.tasks.model import Task, TaskFormatError

log = logging.getLogger(__name__)

_POLL_S = 0.25  # between looks at an empty queue and at the stop file
_CHORES_S = 2.0  # between heartbeats, lease renewals and reaping
_Job = asyncio.Task[Outcome]


class Daemon:
    """One process's share of the synthesis.

    Args:
        run: the run directory.
        attempt: number of this (re)start.
        pipeline: makes variants.
        backend: what the pipeline asks; only its accounts and what it waits for are read here.
        workers: seeds worked on at once.
        lease_s: a claim not renewed for so long goes to another daemon.
        max_deliveries: claims of one seed before it is set aside.
    """

    def __init__(
        self,
        run: RunDir,
        attempt: int,
        pipeline: Pipeline,
        backend: Backend,
        workers: int,
        lease_s: float = 60.0,
        max_deliveries: int = 3,
    ) -> None:
        self._run, self._attempt = run, attempt
        self._pipeline, self._backend, self._workers = pipeline, backend, workers
        self._seeds = run.queue("seeds", lease_s=lease_s, max_deliveries=max_deliveries)
        self._variants = run.queue("variants")
        self._owner = f"{socket.gethostname()[:40]}-{os.getpid()}"
        self._heartbeat = Heartbeat(run.heartbeats, ROLE)
        self._records = Records(run, attempt, backend.accounts)
        self._jobs: dict[_Job, Claim] = {}
        self._fence = Fence(run, attempt)
        # A lease outlives two chores that came to nothing.
        self._chores_every_s, self._chores_due = min(_CHORES_S, lease_s / 3), 0.0

    async def serve(self) -> None:
        """Work until the run is asked to stop; then hand back what is unfinished.

        Raises:
            OvertakenError: a newer attempt of the run was started; what is unfinished is handed back.
            OSError: the run directory cannot be written.
        """
        try:
            while not stop.is_requested(self._run, self._attempt):
                self._chores()
                self._start_jobs()
                await self._wait()
        finally:
            await self._hand_back()
            self._records.close()

    def _start_jobs(self) -> None:
        while len(self._jobs) < self._workers:
            claim = self._seeds.claim(self._owner)
            if claim is None:
                return
            self._records.claimed(claim.key, claim.deliveries)
            job = asyncio.create_task(self._work(claim.key, claim.message), name=claim.key)
            self._jobs[job] = claim

    async def _work(self, key: str, message: dict[str, Any]) -> Outcome:
        if "task" not in message:
            raise TaskFormatError(f"seed message {key!r}: expected the key 'task', found {sorted(message)}")
        return await self._pipeline.run(Task.from_json(message["task"]), key)

    async def _wait(self) -> None:
        """Let the jobs run for a moment, and settle those that are done."""
        if not self._jobs:
            await asyncio.sleep(_POLL_S)
            return
        done, _ = await asyncio.wait(self._jobs, timeout=_POLL_S, return_when=asyncio.FIRST_COMPLETED)
        # In key order: the journal of a run with one worker per seed then does not depend on a set's order.
        for job in sorted(done, key=lambda job: job.get_name()):
            self._settle(job, self._jobs.pop(job))

    def _settle(self, job: _Job, claim: Claim) -> None:
        """Answer a seed whose job is done; a cancelled one had lost its lease."""
        if job.cancelled():
            return
        error = job.exception()
        try:
            if error is None:
                self._answer(claim, job.result())
            else:
                self._set_aside(claim, error)
        except LeaseLostError:
            # Another daemon has the seed and gives the same answer: content depends on the key alone.
            log.warning("seed %s: the lease was lost, its answer is another daemon's", claim.key)

    def _answer(self, claim: Claim, outcome: Outcome) -> None:
        claim.renew()
        tasks = [task.to_json() for task in outcome.tasks]
        self._publish(claim.key, tasks, outcome.reason, outcome.attempts, outcome.errors)
        claim.commit()
        self._records.finished(claim.key, outcome)

    def _set_aside(self, claim: Claim, error: BaseException) -> None:
        """Quarantine a seed that cannot be worked on. A `RodsError` explains itself, anything else is a
        bug.
        """
        reason = str(error) if isinstance(error, RodsError) else f"{type(error).__name__}: {error}"
        if not isinstance(error, RodsError):
            log.error("seed %s ended in a bug and was set aside", claim.key, exc_info=error)
        claim.renew()
        self._publish(claim.key, [], f"quarantined: {reason}", 0, {})
        claim.quarantine(reason)
        self._records.quarantined(claim.key, reason)

    def _publish(
        self, key: str, tasks: list[dict[str, Any]], reason: str, attempts: int, errors: dict[str, int]
    ) -> None:
        message = {
            "key": key,
            "seed_key": key,
            "tasks": tasks,
            "outcome": "published" if tasks else "dropped",
            "reason": reason,
            "attempts": attempts,
            "errors": errors,
        }
        self._variants.put(key, message)

    def _chores(self) -> None:
        """What must happen every few seconds whatever the jobs do."""
        if time.monotonic() < self._chores_due:
            return
        self._chores_due = time.monotonic() + self._chores_every_s
        self._fence.check()
        phase = "working" if self._jobs else "idle"
        if self._backend.waiting:
            # The seeds are kept, with their leases renewed: it is not their fault.
            phase = f"waiting for the server of {self._backend.waiting}"
        self._heartbeat.beat(phase, open=len(self._jobs), **self._records.counters)
        for job, claim in self._jobs.items():
            try:
                claim.renew()
            except LeaseLostError:
                job.cancel()
        # After the renewals: a pause of this process must not make it reap its own claims.
        self._seeds.reap()

    async def _hand_back(self) -> None:
        for job in self._jobs:
            job.cancel()
        await asyncio.gather(*self._jobs, return_exceptions=True)
        for job, claim in self._jobs.items():
            if not job.cancelled():
                self._settle(job, claim)
                continue
            try:
                claim.hand_back()
            except LeaseLostError:
                continue
            self._records.handed_back(claim.key)
        self._jobs.clear()
