"""What a policy is scored on: tasks by suite and split, under the suite's own rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rods import tasks as task_sources
from rods.config import Config, RewardConfig, SimulationConfig, TasksConfig
from rods.errors import RodsError
from rods.tasks.model import Task, fingerprint
from rods.tasks.taskset import TaskSet

SPLITS = ("heldout", "validation", "train")


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
        tasks = TasksConfig(
            source=suite.source, train_count=count, heldout_count=count, validation_count=count
        )
    return replace(
        config,
        tasks=replace(tasks, heldout_count=None, validation_count=None) if suite.source == "bfcl" else tasks,
        simulation=official if suite.official else own,
        reward=RewardConfig(name="binary", empty_turn="official" if suite.official else "envtuning"),
    )


def tasks_of(config: Config, split: str) -> tuple[Task, ...]:
    """The tasks of one split.

    `heldout` is never trained on. `validation` is for choosing settings and checkpoints: the held-out tasks stay
    untouched until the end. Where the source has no spare tasks a policy has trained on those, see `rods.tasks`.

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
    return tasks.train if split == "train" else tasks.validation
