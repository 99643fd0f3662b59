"""The synthesis job's loop: claim seeds, work on many at once, answer every one, hand back what is
unfinished.

For each seed there is exactly one answer in the variants queue, published or dropped: that is how the
trainer's epoch barrier knows that a seed is closed. The answer is put before its claim ends, and a seed that has
its answer is not worked on again, so a death in between changes nothing. Seeds come several in a file, under one
lease that ends with the last of them. A message that cannot be worked on is answered as dropped and kept in
quarantine; it never ends the job.

The event loop only works on seeds; files are the business of one thread (`desk`), leases of another (`leases`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from rods.exchange.rundir import RunDir
from rods.synthesis.agents import Backend
from rods.synthesis.delivery import Delivery
from rods.synthesis.depth import SHIFTS
from rods.synthesis.desk import Desk, Result
from rods.synthesis.pipeline import Outcome, Pipeline
from rods.tasks.model import Task, TaskFormatError

_POLL_S = 0.25  # between looks at an empty queue and at the stop file
_CHORES_S = 2.0  # between heartbeats, lease renewals and reaping
_Job = asyncio.Task[Outcome]
_Found = TypeVar("_Found")


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
        self._pipeline, self._backend, self._workers = pipeline, backend, workers
        self._desk_settings = (run, attempt, lease_s, max_deliveries, _CHORES_S)
        self._jobs: dict[_Job, Delivery] = {}
        self._slots = asyncio.Semaphore(workers)  # a batch may hold more seeds than workers are free
        self._clerk = ThreadPoolExecutor(1, "files")

    async def serve(self) -> None:
        """Work until the run is asked to stop; then hand back what is unfinished.

        Raises:
            OvertakenError: a newer attempt of the run was started; what is unfinished is handed back.
            OSError: the run directory cannot be written.
        """
        loop = asyncio.get_running_loop()
        desk = Desk(*self._desk_settings, lambda delivery: loop.call_soon_threadsafe(self._give_up, delivery))
        try:
            while await self._at_the_desk(desk.look, self._free, self._phase, len(self._jobs)):
                self._start_jobs(desk)
                await self._wait(desk)
        finally:
            try:
                await self._hand_back(desk)
            finally:
                await self._at_the_desk(desk.close)
                self._clerk.shutdown()

    async def _at_the_desk(self, function: Callable[..., _Found], *arguments: Any) -> _Found:
        """Call a function of the desk in its thread. Shielded: what was begun there is done, whoever waits for it."""
        running = asyncio.get_running_loop().run_in_executor(self._clerk, function, *arguments)
        return await asyncio.shield(running)

    @property
    def _free(self) -> int:
        return self._workers - len(self._jobs)

    @property
    def _phase(self) -> str:
        if self._backend.waiting:
            # The seeds are kept, with their leases renewed: it is not their fault.
            return f"waiting for the server of {self._backend.waiting}"
        return "working" if self._jobs else "idle"

    def _start_jobs(self, desk: Desk) -> None:
        while desk.fresh:
            delivery, message = desk.fresh.popleft()
            job = asyncio.create_task(self._work(message.key, message.content), name=message.key)
            self._jobs[job] = delivery

    async def _work(self, key: str, message: dict[str, Any]) -> Outcome:
        if "task" not in message or message.get("depth_shift") not in tuple(SHIFTS):
            raise TaskFormatError(
                f"seed message {key!r}: expected the keys 'task' and 'depth_shift' ({', '.join(map(str, SHIFTS))}), "
                f"found {sorted(message)} and a shift of {message.get('depth_shift')!r}"
            )
        async with self._slots:
            return await self._pipeline.run(Task.from_json(message["task"]), key, message["depth_shift"])

    async def _wait(self, desk: Desk) -> None:
        """Let the jobs run for a moment, and settle those that are done."""
        if not self._jobs:
            await asyncio.sleep(_POLL_S)
            return
        done, _ = await asyncio.wait(self._jobs, timeout=_POLL_S, return_when=asyncio.FIRST_COMPLETED)
        await self._settle(desk, {job: self._jobs.pop(job) for job in done})

    async def _settle(self, desk: Desk, done: dict[_Job, Delivery]) -> None:
        """Answer the seeds of jobs that are done; a cancelled one had lost its lease."""
        results = [
            Result(job.get_name(), delivery, job.exception() or job.result())
            for job, delivery in done.items()
            if not job.cancelled()
        ]
        if results:
            await self._at_the_desk(desk.settle, results, self._backend.accounts.costs())

    def _give_up(self, delivery: Delivery) -> None:
        for job, owner in self._jobs.items():
            if owner is delivery:
                job.cancel()

    async def _hand_back(self, desk: Desk) -> None:
        for job in self._jobs:
            job.cancel()
        await asyncio.gather(*self._jobs, return_exceptions=True)
        left, self._jobs = self._jobs, {}
        await self._settle(desk, left)
        unfinished = [(delivery, job.get_name()) for job, delivery in left.items() if job.cancelled()]
        await self._at_the_desk(desk.hand_back, unfinished)
