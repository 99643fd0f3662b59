"""Where finished variants are replayed: in the daemon's own process, or in a pool of processes beside it.

The last gate runs a whole dialogue several times on fresh worlds, which is the longest stretch of simulation there is
and needs nothing of the attempt but the task. With a slow simulator it would hold up the event loop, and with it all
other workers; `synthesis.simulation_processes` moves it out. The calls of stage 2 stay: each depends on an answer of
the model to the one before, and costs less than a message to another process.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Protocol

from rods.synthesis import filters
from rods.synthesis.depth import Target
from rods.synthesis.errors import PipelineFailure
from rods.tasks.model import Task

log = logging.getLogger(__name__)

_TRIES = 3  # a death ends what other workers had in the pool too
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Simulation(Protocol):
    """Replays finished variants."""

    async def check(self, task: Task, target: Target, allowed: float) -> float:
        """What `filters.check` says, and what it raises."""


class InProcess:
    """In the event loop: right where a replay takes milliseconds."""

    async def check(self, task: Task, target: Target, allowed: float) -> float:
        """See `Simulation.check`."""
        return filters.check(task, target, allowed)


class Pool:
    """In processes of their own, started at the first task and anew after a death."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._executor: ProcessPoolExecutor | None = None

    async def check(self, task: Task, target: Target, allowed: float) -> float:
        """See `Simulation.check`.

        Raises:
            PipelineFailure: the processes that replayed it died, each time.
        """
        loop = asyncio.get_running_loop()
        for _ in range(_TRIES):
            executor = self._started()
            try:
                replayed = loop.run_in_executor(executor, filters.check, task, target, allowed)
            except (
                BrokenProcessPool,
                OSError,
            ):  # OSError: its pipes are closed, but it is not marked as broken yet
                self._forget(executor)
                continue
            try:
                return await replayed
            except BrokenProcessPool:
                log.warning("a process that replays variants died; others are started")
                self._forget(executor)
        raise PipelineFailure(f"the process that replayed it died, {_TRIES} times")

    def close(self) -> None:
        """End the processes; what they were at is lost."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)

    def _started(self) -> ProcessPoolExecutor:
        if self._executor is None:
            # spawn: a fork would copy the locks of this process's other threads as they are.
            context = multiprocessing.get_context("spawn")
            self._executor = ProcessPoolExecutor(
                self._processes, context, initializer=_begin, initargs=(os.getpid(),)
            )
        return self._executor

    def _forget(self, broken: ProcessPoolExecutor) -> None:
        """Several workers may find the same pool broken; the first of them makes room for the next one."""
        if self._executor is broken:
            self._executor = None
            broken.shutdown(wait=False, cancel_futures=True)


@contextmanager
def simulation(processes: int) -> Iterator[Simulation]:
    """The place that `synthesis.simulation_processes` names; 0 is the event loop's own process."""
    if not processes:
        yield InProcess()
        return
    pool = Pool(processes)
    try:
        yield pool
    finally:
        pool.close()


def _begin(daemon: int) -> None:
    """Runs first in each process: it ends with the daemon, and leaves signals for the group to the daemon."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != daemon:
        os._exit(1)
