"""What a policy is scored on: tasks by suite and split, under the suite's own rules."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rods import tasks as task_sources
from rods.config import Config, RewardConfig, SimulationConfig, TasksConfig
from rods.errors import RodsError
from rods.tasks.model import Task, fingerprint
from rods.tasks.taskset import TaskSet

SPLITS = ("heldout", "validation", "train")
VALIDATION = 100  # tasks
_VALIDATION_SEED = 1


class SuiteError(RodsError):
    """A suite or a split that does not exist."""


@dataclass(frozen=True)
class Suite:
    """A benchmark that this program runs itself.

    Attributes:
        name: on the command line.
        source: of the tasks, a name in the registry of task sources.
        official: by BFCL's own rules: any argument type, 20 steps a turn and then a forced end, turns without
            ground truth not judged. Otherwise the simulation's settings of training hold.
    """

    name: str
    source: str
    official: bool


SUITES = {
    suite.name: suite for suite in (Suite("bfcl_v3", "bfcl", True), Suite("scripted", "scripted", False))
}


def get(name: str) -> Suite:
    """The suite called `name`.

    Raises:
        SuiteError: there is none.
    """
    if name not in SUITES:
        raise SuiteError(f"--suite {name}: expected one of {', '.join(SUITES)}")
    return SUITES[name]


def under_rules(config: Config, suite: Suite) -> Config:
    """`config` with the suite's tasks and rules; the policy's own protocol stays. An episode counts if all passes."""
    protocol = config.simulation.protocol
    official = SimulationConfig(
        step_limit=20, at_limit="force_quit", types="official", max_result_chars=1_000_000, protocol=protocol
    )
    own = replace(config.simulation, hints="none")
    tasks = config.tasks
    if tasks.source != suite.source:
        count = None if suite.source == "bfcl" else 48
        tasks = TasksConfig(source=suite.source, train_count=count, heldout_count=count)
    return replace(
        config,
        tasks=replace(tasks, heldout_count=None) if suite.source == "bfcl" else tasks,
        simulation=official if suite.official else own,
        reward=RewardConfig(name="binary", empty_turn="official" if suite.official else "envtuning"),
    )


def tasks_of(config: Config, split: str) -> tuple[Task, ...]:
    """The tasks of one split.

    `heldout` is never trained on. `validation` is a fixed stratified sample of the training tasks, for choosing
    settings and checkpoints: the held-out tasks stay untouched until the end, but a policy has trained on these.

    Raises:
        SuiteError: no such split, or one without tasks.
        As `rods.tasks.load`.
    """
    if split not in SPLITS:
        raise SuiteError(f"--split {split}: expected one of {', '.join(SPLITS)}")
    tasks = _split(task_sources.load(config.tasks), split)
    if not tasks:
        raise SuiteError(f"--split {split}: expected tasks, the source {config.tasks.source} has none there")
    return tasks


def identity(tasks: Sequence[Task]) -> str:
    """SHA-256 (hex) of the tasks in order."""
    return fingerprint(tasks)


def _split(tasks: TaskSet, split: str) -> tuple[Task, ...]:
    if split == "heldout":
        return tasks.heldout
    return tasks.train if split == "train" else sample(tasks.train, VALIDATION)


def sample(tasks: Sequence[Task], count: int) -> tuple[Task, ...]:
    """About `count` tasks, each type in the share that it has in `tasks`; always the same ones.

    In BFCL the same places are drawn in every type, so that siblings (one story in four types) stay together.
    """
    places: dict[str, list[int]] = defaultdict(list)
    for place, task in enumerate(tasks):
        places[task.type].append(place)
    chosen: list[int] = []
    for own in places.values():
        wanted = min(len(own), max(1, round(count * len(own) / len(tasks))))
        chosen += random.Random(_VALIDATION_SEED).sample(own, wanted)
    return tuple(tasks[place] for place in sorted(chosen))
