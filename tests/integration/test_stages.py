"""A run of three stages through the real loop: stopped after every step, and killed, it equals the straight one."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from soak.harness import Killer, Nursery, Tally, differences, finish, results, soak_config, supervisor_log
from soak.policy import ChainPolicy

from launchers.identity import config_hash
from rods import tasks as task_sources
from rods.config import Config
from rods.exchange import stop
from rods.exchange.lineage import history
from rods.exchange.rundir import RunDir
from rods.roles.train import assemble
from rods.tasks.model import TaskType
from rods.tasks.taskset import TaskSet, make
from rods.training.loop import Loop
from rods.training.stages import StageError, planned_steps

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

STAGES: list[dict[str, Any]] = [
    {"name": "format", "reward": "format", "synthesis": False, "epochs": 2},
    {
        "name": "base",
        "task_types": ["base"],
        "hints": "envtuning",
        "synthesis": False,
        "epochs": 5,
        "patience": 1,
    },
    {"name": "all", "epochs": 3},
]
CONFIG = soak_config(seed=3, training={"stages": STAGES})
KILLS = 8


class Impatient:
    """A watcher that asks to stop after `steps` steps, and notes what it is told."""

    def __init__(self, steps: int | None) -> None:
        self._left = steps
        self.records: list[dict[str, Any]] = []

    def beat(self, phase: str, **info: Any) -> None:
        """Nobody looks."""

    def log(self, record: dict[str, Any]) -> None:
        """Note it."""
        self.records.append(record)

    def keep(self, step: int, groups: Sequence[Any]) -> None:
        """One step less."""
        if self._left is not None:
            self._left -= 1

    def stop_requested(self) -> bool:
        """Whether the steps are used up."""
        return self._left is not None and self._left <= 0


class Noting(ChainPolicy):
    """A policy that notes by which settings it drew each step, and on which types of task."""

    def __init__(self, config: Config, seen: list[tuple[str, str, set[str]]]) -> None:
        super().__init__(config)
        self._seen = seen

    def run(self, tasks: Sequence[Any], *given: Any, **more: Any) -> Any:
        """A step."""
        config = self._config
        self._seen.append((config.reward.name, config.simulation.hints, {task.type.value for task in tasks}))
        return super().run(tasks, *given, **more)


def of_two_types(config: Config) -> TaskSet:
    """The scripted tasks, each third one called a miss_func task."""
    loaded = task_sources.load(config.tasks)
    train = [
        replace(task, type=TaskType.BASE if index % 3 else TaskType.MISS_FUNC)
        for index, task in enumerate(loaded.train)
    ]
    return make("scripted", train, loaded.heldout)


def play(folder: Path, steps_an_attempt: int | None) -> tuple[list[dict[str, Any]], list[Any], list[Any]]:
    """The run in this process, without a synthesis job: its deeds, what each step was drawn by, metrics."""
    config = soak_config(seed=3, training={"stages": STAGES}, buffer={"barrier": False})
    run = RunDir.create(folder, "stages", config_hash(config))
    tasks = of_two_types(config)
    seen: list[Any] = []
    records: list[Any] = []
    finished = False
    for attempt in range(1, 100):
        if finished:
            break
        watcher = Impatient(steps_an_attempt)
        run.attempt_dir(attempt).mkdir(parents=True, exist_ok=True)
        parts = assemble(run, attempt, config, tasks, Noting(config, seen), watcher)  # type: ignore[arg-type]
        finished = Loop(parts).run()
        parts.ledger.close()
        records += watcher.records
    assert finished
    deeds = [record for record in history(run.journal_dir, "train") if record["name"] != "run_started"]
    return deeds, seen, records


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    nursery = Nursery(tmp_path)
    yield nursery
    nursery.close()


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return play(tmp_path_factory.mktemp("straight"), None)


def test_each_stage_draws_by_its_own_settings_on_its_own_tasks(straight: Any) -> None:
    _, seen, _ = straight
    order = list(dict.fromkeys((reward, hints) for reward, hints, _ in seen))
    assert order == [("format", "none"), ("progress", "envtuning"), ("progress", "none")]
    types = {(reward, hints): set[str]() for reward, hints, _ in seen}
    for reward, hints, kinds in seen:
        types[reward, hints] |= kinds
    assert types["progress", "envtuning"] == {"base"}
    assert len(types["format", "none"]) > 1
    assert types["progress", "none"] == types["format", "none"]


def test_stages_are_told_in_the_journal_and_make_seeds_only_where_they_may(straight: Any) -> None:
    deeds, _, _ = straight
    started = [deed for deed in deeds if deed["name"] == "stage_started"]
    assert [(deed["stage"], deed["title"], deed["reason"]) for deed in started] == [
        (1, "format", ""),
        (2, "base", "epochs"),
        (3, "all", "patience"),
    ]
    emitted = [deed["epoch"] for deed in deeds if deed["name"] == "seed_emitted"]
    assert emitted
    assert min(emitted) > started[2]["epoch"]


def test_every_stage_is_evaluated_at_its_end(straight: Any) -> None:
    deeds, _, _ = straight
    started = [deed["epoch"] for deed in deeds if deed["name"] == "stage_started"]
    evaluated = {deed["epoch"] for deed in deeds if deed["name"] == "evaluation_done"}
    assert evaluated >= {*started, deeds[-1]["epoch"]}


def test_the_metrics_say_the_stage_and_count_on_the_planned_epochs(straight: Any) -> None:
    _, _, records = straight
    steps = [record for record in records if "reward_mean" in record]
    assert list(dict.fromkeys((step["stage"], step["stage_name"]) for step in steps)) == [
        (1, "format"),
        (2, "base"),
        (3, "all"),
    ]
    assert {step["epochs_total"] for step in steps} == {10}
    assert all(step["steps_total"] >= step["step"] for step in steps)
    assert steps[-1]["steps_total"] == steps[-1]["step"]
    assert all(record["variants_accepted"] == 0 for record in steps)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_run_stopped_after_every_few_steps_equals_the_straight_one(
    straight: Any, steps: int, tmp_path: Path
) -> None:
    deeds, seen, _ = play(tmp_path, steps)
    assert (deeds, seen) == straight[:2]


def test_a_killed_run_of_stages_with_synthesis_equals_the_straight_one(
    nursery: Nursery, tmp_path: Path
) -> None:
    straight, crashed = (nursery.create(tmp_path / "runs", CONFIG) for _ in range(2))
    assert nursery.finish(straight) == 0, supervisor_log(straight)
    assert any(deed["name"] == "variant_injected" for deed in results(straight)["deeds"])
    tally = Tally()
    killer = Killer(nursery, crashed, random.Random(2), tally)
    while tally.kills < KILLS and not stop.is_finished(crashed):
        killer.attempt()
    finish(nursery, crashed)
    assert differences(straight, crashed) == []


def test_a_stage_without_tasks_is_refused() -> None:
    config = soak_config(training={"stages": [{"name": "long", "task_types": ["long_context"]}]})
    with pytest.raises(StageError, match="long_context"):
        planned_steps(config, of_two_types(config).train)


def test_the_plan_counts_each_stages_own_tasks() -> None:
    # Of 18 tasks 12 are base, 4 a step: 2 × 5 + 5 × 3 + 3 × 5.
    assert planned_steps(CONFIG, of_two_types(CONFIG).train) == 40
