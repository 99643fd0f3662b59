"""A static dataset by the same pipeline: the baseline that has its variants before training, and resumes anywhere.

Request number i asks for variants of seed i modulo the number of seeds, under a key that is made of i. A variant's
content depends on its seed and key alone, and the dataset is the first N accepted variants *in the order of
requests* that are like none before them. So neither the number of workers, nor the order of arrival, nor a kill and a
restart changes it, and a dataset of N variants is the beginning of any larger one with the same settings.

Finished requests are kept in a journal, one file per process; whoever starts in the same folder reads them all and
asks for what is missing.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rods.errors import RodsError
from rods.exchange import journal
from rods.exchange.atomic import make_dirs
from rods.exchange.journal import JournalWriter
from rods.synthesis.agents import Backend
from rods.synthesis.errors import PipelineFailure
from rods.synthesis.pipeline import Outcome, Pipeline
from rods.tasks.model import Task

log = logging.getLogger(__name__)

_WRITER = "offline"
_PAUSES_S = (5.0, 20.0, 60.0)  # before a request that met no server is made again


class ServerLostError(RodsError):
    """The language model's server answers nobody; what is finished is kept."""


@dataclass(frozen=True)
class Request:
    """What became of one request; JSON throughout.

    Attributes:
        index: its number, from 0.
        key: what its variants' content derives from.
        seed: id of the task that variants were asked of.
        type: that task's type.
        tasks: accepted variants, with the content id of each in `contents`.
        attempts: made for all of them.
        failures: of the attempts, in order (type, function, turn, detail).
        reason: why nothing was accepted, "" where something was.
        llm_calls, seconds: spent by the process since its request before; they sum up to the whole effort.
    """

    index: int
    key: str
    seed: str
    type: str
    tasks: list[dict[str, Any]]
    contents: list[str]
    attempts: int
    failures: list[dict[str, Any]]
    reason: str
    llm_calls: int
    seconds: float


@dataclass(frozen=True)
class Progress:
    """Where the making of a dataset stands: distinct variants so far, those wanted, requests finished."""

    accepted: int
    count: int
    requests: int


def key_of(index: int) -> str:
    """The key of request `index`."""
    return f"offline-{index:07d}"


def finished(folder: Path) -> dict[int, Request]:
    """The requests that any process has finished in `folder`, by index.

    Raises:
        JournalError: a journal is damaged.
    """
    found: dict[int, Request] = {}
    for record in journal.read_all(folder, _WRITER):
        found.setdefault(record["index"], Request(**record))
    return found


class Offline:
    """Makes requests until enough variants are there.

    Args:
        folder: of the journals.
        seeds: what variants are asked of, in turn.
        pipeline: makes variants.
        backend: what the pipeline asks; only its call counter is read here.
        count: distinct variants wanted.
        max_requests: give up after so many, for a backend that nothing is accepted from.
        report: called after each request.
    """

    def __init__(
        self,
        folder: Path,
        seeds: Sequence[Task],
        pipeline: Pipeline,
        backend: Backend,
        count: int,
        max_requests: int,
        report: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self._seeds, self._pipeline, self._backend = seeds, pipeline, backend
        self._count, self._max_requests, self._report = count, max_requests, report
        self.requests = finished(folder)
        self._contents = {content for request in self.requests.values() for content in request.contents}
        self._journal = _open_journal(folder)
        self._indices = self._missing()
        self._calls_counted, self._time_counted = backend.llm_calls, time.monotonic()
        self._last_answer = float("-inf")

    @property
    def distinct(self) -> int:
        """Variants of different content so far."""
        return len(self._contents)

    async def make(self, workers: int) -> None:
        """Have `workers` requests open at a time until enough is accepted, or `max_requests` are finished.

        Raises:
            ServerLostError: no request has got an answer for a while.
            OSError: the folder cannot be written.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._work())
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        finally:
            self._journal.close()

    def _missing(self) -> Iterator[int]:
        """Unfinished indices in order, while there are too few variants; gaps that a death left are always filled,
        since the order of requests decides what belongs to the dataset.
        """
        done = frozenset(self.requests)
        last = max(done, default=-1)
        for index in itertools.count():
            enough = len(self._contents) >= self._count or index >= self._max_requests
            if enough and index > last:
                return
            if index not in done:
                yield index

    async def _work(self) -> None:
        for index in self._indices:
            seed = self._seeds[index % len(self._seeds)]
            self._keep(index, seed, await self._outcome(seed, key_of(index)))

    async def _outcome(self, seed: Task, key: str) -> Outcome:
        """What the pipeline makes of `seed`. An outcome that an outage had a part in is not one.

        A request that alone gets no answer, while others do, has itself to blame (a prompt that is too long) and is
        rejected.
        """
        begun = time.monotonic()
        for pause in (*_PAUSES_S, None):
            outcome = await self._run(seed, key)
            if not any(isinstance(failure, PipelineFailure) for failure in outcome.failures):
                self._last_answer = time.monotonic()
                return outcome
            if pause is not None:
                await asyncio.sleep(pause)
        if self._last_answer < begun:
            raise ServerLostError(
                f"request {key}: {outcome.failures[-1]}. {len(self.requests)} requests are finished and kept; "
                "start the server, then give the same command again"
            )
        return outcome

    async def _run(self, seed: Task, key: str) -> Outcome:
        try:
            return await self._pipeline.run(seed, key)
        except RodsError as error:
            return Outcome((), 0, (), f"the seed cannot be run: {error}")

    def _keep(self, index: int, seed: Task, outcome: Outcome) -> None:
        calls, now = self._backend.llm_calls, time.monotonic()
        request = Request(
            index=index,
            key=key_of(index),
            seed=seed.id,
            type=seed.type.value,
            tasks=[task.to_json() for task in outcome.tasks],
            contents=[task.content_id() for task in outcome.tasks],
            attempts=outcome.attempts,
            failures=[failure.to_json() for failure in outcome.failures],
            reason=outcome.reason,
            llm_calls=calls - self._calls_counted,
            seconds=round(now - self._time_counted, 4),
        )
        self._journal.append(asdict(request))
        self._calls_counted, self._time_counted = calls, now
        self.requests[index] = request
        self._contents.update(request.contents)
        self._report(Progress(len(self._contents), self._count, len(self.requests)))


def _open_journal(folder: Path) -> JournalWriter:
    """A journal of this process alone: numbers are never used twice, also by two that start at once."""
    make_dirs(folder)
    last = max((journal.attempt_of(path) for path in journal.files(folder, _WRITER)), default=0)
    for number in itertools.count(last + 1):
        path = folder / f"{_WRITER}-{number:04d}.log"
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except FileExistsError:
            continue
        return JournalWriter(path)
    raise AssertionError("unreachable")
