"""`rods synthesize`: put the parts of offline synthesis together and make a static dataset."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rods import tasks as task_sources
from rods.config import Config
from rods.config import compose as composing
from rods.errors import RodsError
from rods.synthesis import dataset, prompting
from rods.synthesis.offline import Offline, Progress
from rods.synthesis.pipeline import Pipeline
from rods.synthesis.service import open_backend
from rods.synthesis.simulating import simulation
from rods.tasks.model import Task, TaskType, fingerprint
from rods.tasks.taskset import TaskSet

log = logging.getLogger(__name__)

SOURCES = ("bfcl", "scripted")  # of seed tasks; any other name is a path
_SAY_EVERY_S = 30.0
# Settings that say where and how fast, not what: a dataset may be gone on with under others.
_NOT_CONTENT = frozenset(
    {
        "enabled",
        "workers",
        "simulation_processes",
        "base_url",
        "server",
        "server_args",
        "server_env",
        "cache_mib",
        "request_timeout_s",
    }
)


class NoSeedsError(RodsError):
    """Nothing to ask variants of."""


@dataclass(frozen=True)
class Order:
    """What a dataset shall be.

    Attributes:
        tasks: bfcl, scripted, or the path that `tasks.path` would have.
        count: distinct variants wanted.
        folder: where the dataset is made, or gone on with.
        types: task types that seeds are taken of; empty: all.
        max_requests: give up after so many.
        overrides: of the configuration, as for launch.py.
    """

    tasks: str
    count: int
    folder: Path
    types: tuple[TaskType, ...]
    max_requests: int
    overrides: tuple[str, ...]


def make(order: Order, report: Callable[[Progress], None]) -> dict[str, Any]:
    """Make the dataset, or what is missing of it; returns its manifest.

    Raises:
        ConfigError: the overrides do not make a configuration.
        RodsError: it cannot be made; the message is complete. What is finished is kept.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    config = compose(order.tasks, order.overrides)
    task_set = task_sources.load(config.tasks)
    seeds = tuple(task for task in task_set.train if task.type in (order.types or tuple(TaskType)))
    if not seeds:
        raise NoSeedsError(
            f"--types {','.join(order.types)}: expected seed tasks of these types, found none among "
            f"{len(task_set.train)} of {order.tasks}; leave --types out, or choose other tasks"
        )
    return asyncio.run(_make(order, config, task_set, seeds, report))


def compose(tasks: str, overrides: Sequence[str]) -> Config:
    """The configuration that `launch.py` would have, with tasks from `tasks`.

    Raises:
        ConfigError: no such key or value, or the configuration contradicts itself.
    """
    chosen = (
        [f"tasks={tasks}"] if tasks in SOURCES else ["tasks=file", f"tasks.path={Path(tasks).absolute()}"]
    )
    return composing.compose([*chosen, *overrides])


async def _make(
    order: Order,
    config: Config,
    task_set: TaskSet,
    seeds: Sequence[Task],
    report: Callable[[Progress], None],
) -> dict[str, Any]:
    known = task_set.known
    identity = {
        "seed": config.seed,
        "tasks": asdict(config.tasks) | {"path": "", "fingerprint": task_set.fingerprint},
        "seeds": fingerprint(seeds),
        "synthesis": _content(asdict(config.synthesis)),
        "prompts": prompting.versions(),
    }
    # Before a server is started: a folder that is refused must not cost minutes of loading.
    dataset.prepare(order.folder, identity, order.count)
    # Several processes may make one dataset, each with a server of its own.
    logs = order.folder / "logs" / f"{socket.gethostname()[:40]}-{os.getpid()}"
    with simulation(config.synthesis.simulation_processes) as replays:
        async with open_backend(config.synthesis, order.folder, logs, _Waiting()) as backend:
            pipeline = Pipeline(config.synthesis, backend, config.seed, known, replays)
            wanted = order.count
            while True:
                offline = Offline(
                    order.folder / dataset.JOURNAL,
                    seeds,
                    pipeline,
                    backend,
                    wanted,
                    order.max_requests,
                    report,
                )
                await offline.make(config.synthesis.workers)
                chosen = dataset.select(offline.requests, order.count, config.synthesis.max_similarity)
                missing = order.count - len(chosen.accepted)
                if missing <= 0 or len(offline.requests) >= order.max_requests:
                    break
                # Whether a variant is like one before it is known when all before it are finished.
                wanted = offline.distinct + missing
    return dataset.write(
        order.folder, identity, chosen, offline.requests.values(), task_set.heldout, order.count
    )


class _Waiting:
    """Says now and then what a model server that is not ready is at."""

    def __init__(self) -> None:
        self._due = time.monotonic() + _SAY_EVERY_S

    def __call__(self, what: str) -> None:
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + _SAY_EVERY_S
            log.warning("waiting for %s", what)


def _content(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _content(value) if isinstance(value, Mapping) else value
        for key, value in settings.items()
        if key not in _NOT_CONTENT
    }
