"""The synthesis job's loop: claim seeds, work on many at once, answer every one, hand back what is
unfinished.

For each seed there is exactly one answer in the variants queue, published or dropped: that is how the
trainer's epoch barrier knows that a seed is closed. The answer is put before its claim ends, and a seed that has
its answer is not worked on again, so a death in between changes nothing. Seeds come several in a file, under one
lease that ends with the last of them. A message that cannot be worked on is answered as dropped and kept in
quarantine; it never ends the job.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from typing import Any

from rods.errors import RodsError
from rods.exchange import replica, stop
from rods.exchange.attempt import Fence
from rods.exchange.heartbeat import Heartbeat
from rods.exchange.queue import DONE, HANDED_BACK, Ending, Fate, LeaseLostError, Message
from rods.exchange.rundir import RunDir
from rods.synthesis.agents import Backend
from rods.synthesis.delivery import Delivery
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
        writer = replica.writer(ROLE)
        self._heartbeat = Heartbeat(run.heartbeats, writer)
        self._records = Records(run, writer, attempt, backend.accounts)
        self._jobs: dict[_Job, Delivery] = {}
        self._slots = asyncio.Semaphore(workers)  # a batch may hold more seeds than workers are free
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
        free = self._workers - len(self._jobs)
        for claim in self._seeds.claim_many(self._owner, free) if free > 0 else ():
            delivery = Delivery(claim)
            for message in claim.messages:
                self._records.claimed(message.key, claim.deliveries)
                self._start(delivery, message)

    def _start(self, delivery: Delivery, message: Message) -> None:
        if self._variants.known(message.key):
            # Whoever answered it died, or lost its lease, before the claim ended. A put that it did not finish is
            # finished by one of the same key, which changes nothing else.
            self._variants.put(message.key, {})
            delivery.end(message.key, DONE)
            return
        job = asyncio.create_task(self._work(message.key, message.content), name=message.key)
        self._jobs[job] = delivery

    async def _work(self, key: str, message: dict[str, Any]) -> Outcome:
        if "task" not in message:
            raise TaskFormatError(f"seed message {key!r}: expected the key 'task', found {sorted(message)}")
        async with self._slots:
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

    def _settle(self, job: _Job, delivery: Delivery) -> None:
        """Answer a seed whose job is done; a cancelled one had lost its lease."""
        if job.cancelled():
            return
        key, error = job.get_name(), job.exception()
        try:
            if error is None:
                self._answer(delivery, key, job.result())
            else:
                self._set_aside(delivery, key, error)
        except LeaseLostError:
            # Another daemon has the seed and gives the same answer: content depends on the key alone.
            log.warning("seed %s: the lease was lost, its answer is another daemon's", key)

    def _answer(self, delivery: Delivery, key: str, outcome: Outcome) -> None:
        delivery.claim.renew()
        tasks = [task.to_json() for task in outcome.tasks]
        self._publish(key, tasks, outcome.reason, outcome.attempts, outcome.errors)
        delivery.end(key, DONE)
        self._records.finished(key, outcome)

    def _set_aside(self, delivery: Delivery, key: str, error: BaseException) -> None:
        """Quarantine a seed that cannot be worked on. A `RodsError` explains itself, anything else is a
        bug.
        """
        reason = str(error) if isinstance(error, RodsError) else f"{type(error).__name__}: {error}"
        if not isinstance(error, RodsError):
            log.error("seed %s ended in a bug and was set aside", key, exc_info=error)
        delivery.claim.renew()
        self._publish(key, [], f"quarantined: {reason}", 0, {})
        delivery.end(key, Ending(Fate.QUARANTINED, reason))
        self._records.quarantined(key, reason)

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
        for delivery in {id(delivery): delivery for delivery in self._jobs.values()}.values():
            try:
                delivery.claim.renew()
            except LeaseLostError:
                self._give_up(delivery)
        # After the renewals: a pause of this process must not make it reap its own claims.
        self._seeds.reap()

    def _give_up(self, delivery: Delivery) -> None:
        for job, owner in self._jobs.items():
            if owner is delivery:
                job.cancel()

    async def _hand_back(self) -> None:
        for job in self._jobs:
            job.cancel()
        await asyncio.gather(*self._jobs, return_exceptions=True)
        for job, delivery in self._jobs.items():
            if not job.cancelled():
                self._settle(job, delivery)
                continue
            try:
                delivery.end(job.get_name(), HANDED_BACK)
            except LeaseLostError:
                continue
            self._records.handed_back(job.get_name())
        self._jobs.clear()
