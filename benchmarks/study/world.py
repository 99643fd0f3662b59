"""The study's tasks: a training set for each seed, and one held-out set that repeats nothing of any of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rods import tasks as task_sources
from rods.config import TasksConfig
from rods.errors import RodsError
from rods.exchange.atomic import make_dirs, write_text
from rods.tasks.file import HELDOUT, TRAIN
from rods.tasks.model import Task

TRAIN_TASKS = 36
HELDOUT_TASKS = 180
REPORTED = tuple(range(5))
"""Seeds of the study."""
CHECKING = tuple(range(5, 10))
"""Seeds that what a trial found is checked on, by settings that were fixed before."""
TUNING = tuple(range(100, 105))
"""Seeds that settings are tried on."""

_HELDOUT_STREAM = 1_000_000  # tasks.seed of the held-out set: no run's
_DRAWN = 2 * HELDOUT_TASKS  # more than are kept, since some repeat a training task


class WorldError(RodsError):
    """Tasks that the study cannot be made of."""


@dataclass(frozen=True)
class Traits:
    """What tells two tasks apart.

    Attributes:
        content: what `Task.content_id` says.
        calls: its solution, all turns' calls in order, as text.
    """

    content: str
    calls: str


def traits(task: Task) -> Traits:
    """Of one task."""
    calls = [[call.to_json() for call in turn.calls] for turn in task.turns]
    return Traits(task.content_id(), json.dumps([*calls, list(task.classes)], sort_keys=True))


@cache
def training(seed: int) -> tuple[Task, ...]:
    """The training tasks of a seed."""
    return task_sources.load(_config(seed, TRAIN_TASKS, 0)).train


@cache
def heldout() -> tuple[Task, ...]:
    """The held-out tasks: none has the content or the solution of a training task of any seed.

    Raises:
        WorldError: too many of those drawn do.
    """
    taken = [traits(task) for seed in (*REPORTED, *CHECKING, *TUNING) for task in training(seed)]
    found = tuple(_apart(task_sources.load(_config(_HELDOUT_STREAM, 1, _DRAWN)).heldout, taken))
    if len(found) < HELDOUT_TASKS:
        raise WorldError(
            f"held-out tasks: expected {HELDOUT_TASKS} that repeat no training task, found {len(found)} among "
            f"{_DRAWN}; draw more (benchmarks/study/world.py)"
        )
    return found[:HELDOUT_TASKS]


def write(folder: Path, seed: int) -> Path:
    """The data set of a seed, for `tasks.path`; returns its folder."""
    own = folder / f"seed_{seed}"
    make_dirs(own)
    for name, tasks in ((TRAIN, training(seed)), (HELDOUT, heldout())):
        write_text(own / name, "".join(json.dumps(task.to_json()) + "\n" for task in tasks))
    return own


def _apart(tasks: Sequence[Task], taken: Sequence[Traits]) -> Iterator[Task]:
    contents, calls = {each.content for each in taken}, {each.calls for each in taken}
    for task in tasks:
        own = traits(task)
        if own.content not in contents and own.calls not in calls:
            yield task
            contents.add(own.content)
            calls.add(own.calls)


def _config(seed: int, train: int, held: int) -> TasksConfig:
    return TasksConfig(source="scripted", train_count=train, heldout_count=held, seed=seed)
