"""`training.trajectories`: the run ends after exactly so many rollouts, stopped meanwhile or not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from soak.harness import soak_config
from soak.policy import ChainPolicy

from launchers.identity import config_hash
from rods import tasks as task_sources
from rods.config import Config
from rods.exchange.lineage import history
from rods.exchange.rundir import RunDir
from rods.roles.train import assemble
from rods.training.loop import Loop
from rods.training.stages import planned_steps

STAGES: list[dict[str, Any]] = [
    {"name": "first", "synthesis": False, "epochs": 1},
    {"name": "second", "synthesis": False, "epochs": 9},
]


class Stopping:
    """A watcher that asks to stop after `steps` steps."""

    def __init__(self, steps: int | None) -> None:
        self._left = steps
        self.totals: list[int] = []

    def beat(self, phase: str, **info: Any) -> None:
        """Nobody looks."""

    def log(self, record: dict[str, Any]) -> None:
        """Note the total of steps that it tells."""
        self.totals += [record["steps_total"]] if "steps_total" in record else []

    def keep(self, step: int, groups: Sequence[Any]) -> None:
        """One step less."""
        if self._left is not None:
            self._left -= 1

    def stop_requested(self) -> bool:
        """Whether the steps are used up."""
        return self._left is not None and self._left <= 0


def configured(**training: Any) -> Config:
    return soak_config(seed=3, training=training, buffer={"barrier": False})


def play(folder: Path, config: Config, steps_an_attempt: int | None = None) -> list[dict[str, Any]]:
    """The run in this process, without a synthesis job, attempt after attempt: its deeds."""
    return play_watched(folder, config, steps_an_attempt)[0]


def play_watched(
    folder: Path, config: Config, steps_an_attempt: int | None = None
) -> tuple[list[dict[str, Any]], list[int]]:
    """Deeds, and the totals of steps that were told on the way."""
    run = RunDir.create(folder, "budget", config_hash(config))
    tasks, totals = task_sources.load(config.tasks), list[int]()
    for attempt in range(1, 50):
        run.attempt_dir(attempt).mkdir(parents=True, exist_ok=True)
        watcher = Stopping(steps_an_attempt)
        parts = assemble(run, attempt, config, tasks, ChainPolicy(config), watcher)  # type: ignore[arg-type]
        finished = Loop(parts).run()
        parts.ledger.close()
        totals += watcher.totals
        if finished:
            break
    deeds = [record for record in history(run.journal_dir, "train") if record["name"] != "run_started"]
    return deeds, totals


def groups(deeds: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [deed for deed in deeds if deed["name"] == "group_observed"]


@pytest.mark.parametrize("count", [1, 7, 18, 23])
@pytest.mark.parametrize("stages", [[], STAGES])
def test_a_run_trains_on_exactly_its_trajectories(
    tmp_path: Path, count: int, stages: list[dict[str, Any]]
) -> None:
    size = configured().training.group_size
    deeds = play(tmp_path, configured(epochs=9, stages=stages, trajectories=count * size))
    assert sum(len(group["rewards"]) for group in groups(deeds)) == count * size
    assert deeds[-1]["name"] == "run_finished"
    assert deeds[-1]["epoch"] == groups(deeds)[-1]["epoch"], "no epoch without a rollout was begun"
    last = groups(deeds)[-1]["step"]
    assert [deed["step"] for deed in deeds if deed["name"] == "evaluation_done"][-1] == last


def test_epochs_end_a_run_that_has_trajectories_left(tmp_path: Path) -> None:
    size = configured().training.group_size
    bounded, free = configured(epochs=1, trajectories=1000 * size), configured(epochs=1)
    assert groups(play(tmp_path, bounded)) == groups(play(tmp_path, free))


@pytest.mark.parametrize("steps", [1, 2])
def test_a_run_stopped_every_few_steps_ends_at_the_same_rollout(tmp_path: Path, steps: int) -> None:
    config = configured(epochs=9, trajectories=23 * configured().training.group_size)
    assert play(tmp_path / "stopped", config, steps) == play(tmp_path / "straight", config)


@pytest.mark.parametrize("steps", [None, 1])
def test_the_total_that_is_told_ends_with_the_trajectories(tmp_path: Path, steps: int | None) -> None:
    plain = configured(epochs=9)
    step = plain.training.group_size * plain.training.tasks_per_step
    deeds, totals = play_watched(tmp_path, configured(epochs=9, trajectories=2 * step), steps)
    assert len(totals) == groups(deeds)[-1]["step"]
    assert set(totals) == {2}


def test_the_plan_ends_with_the_trajectories() -> None:
    config = configured(epochs=9)
    tasks, size = task_sources.load(config.tasks).train, config.training.group_size
    step = size * config.training.tasks_per_step
    assert planned_steps(configured(epochs=9, trajectories=3 * step), tasks) == 3
    assert planned_steps(configured(epochs=9, trajectories=3 * step + size), tasks) == 4
    assert planned_steps(configured(epochs=9, trajectories=1000 * step), tasks) == planned_steps(
        config, tasks
    )
