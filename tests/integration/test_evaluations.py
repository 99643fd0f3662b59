"""Evaluations in the course of a run: when, on which tasks, and that training is none the wiser for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from soak.harness import soak_config
from soak.policy import ChainPolicy

from rods import tasks as task_sources
from rods.config import Config
from rods.exchange.atomic import read_json
from rods.exchange.lineage import history
from rods.exchange.rundir import RunDir
from rods.roles.train import assemble
from rods.training import checkpoint
from rods.training.heldout import Exam
from rods.training.loop import Loop

pytestmark = pytest.mark.timeout(120)
STEPS = 10  # 2 epochs of 18 tasks, 4 a step
START, END = [("validation", 0), ("heldout", 0)], [("validation", 10), ("heldout", 10)]


class Log:
    """A watcher that keeps what it is told; it wishes to stop once the policy says so."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.stop = False

    def beat(self, phase: str, **info: Any) -> None:
        """Nobody looks."""

    def log(self, record: dict[str, Any]) -> None:
        """Keep."""
        self.lines.append(record)

    def keep(self, step: int, groups: Sequence[Any]) -> None:
        """Nobody reads."""

    def stop_requested(self) -> bool:
        """As the policy had it."""
        return self.stop


class Halting(ChainPolicy):
    """A policy that wishes to stop in an evaluation (`within`) or in the rollouts after it, at one step."""

    def __init__(self, config: Config, log: Log, step: int, within: str) -> None:
        super().__init__(config)
        self._log, self._step, self._within = log, step, within

    def evaluate(self, tasks: Sequence[Any], exam: Exam, on_progress: Any) -> Any:
        """Leaves in the second of the two modes."""
        if (self._within, self._step) == (exam.mode.value, exam.step):
            self._log.stop = True
            on_progress(0, 1)
        return super().evaluate(tasks, exam, on_progress)

    def run(self, tasks: Sequence[Any], step: int, on_progress: Any, *rest: Any) -> Any:
        """Leaves before anything is drawn."""
        if (self._within, self._step) == ("rollout", step - 1):
            self._log.stop = True
            on_progress(0, 1)
        return super().run(tasks, step, on_progress, *rest)


def config_of(validation: int = 6, heldout: int = 4, **training: Any) -> Config:
    changes: dict[str, Any] = {
        "epochs": 2,
        "evaluate_every_epochs": 0,
        "checkpoint_every_steps": 0,
        **training,
    }
    return soak_config(
        tasks={"heldout_count": heldout, "validation_count": validation},
        training=changes,
        synthesis={"enabled": False},
        launch={"stop_deadline_s": 0.0},
    )


def attempt(run: RunDir, number: int, config: Config, step: int = -1, within: str = "") -> tuple[bool, Log]:
    run.attempt_dir(number).mkdir(parents=True)
    log = Log()
    policy = Halting(config, log, step, within)
    parts = assemble(run, number, config, task_sources.load(config.tasks), policy, log)  # type: ignore[arg-type]
    finished = Loop(parts).run()
    parts.ledger.close()
    return finished, log


def straight(folder: Path, config: Config) -> tuple[RunDir, Log]:
    run = RunDir.create(folder, "evaluated", "0")
    finished, log = attempt(run, 1, config)
    assert finished
    return run, log


def deeds(run: RunDir) -> list[dict[str, Any]]:
    return [record for record in history(run.journal_dir, "train") if record["name"] != "run_started"]


def evaluated(run: RunDir) -> list[tuple[str, int, str]]:
    done = [each for each in deeds(run) if each["name"] == "evaluation_done"]
    return [(each["split"], each["step"], each["mode"]) for each in done]


def greedy(*when: tuple[str, int]) -> list[tuple[str, int, str]]:
    return [(split, step, "greedy") for split, step in when]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [("heldout", 0), ("heldout", 10)]),
        (
            {"evaluate_every_steps": 4},
            [*START, ("validation", 4), ("validation", 8), *END],
        ),
        # The last step of the first epoch has one evaluation, of the second that of the run's end.
        (
            {"evaluate_every_steps": 5, "evaluate_every_epochs": 1},
            [*START, ("validation", 5), *END],
        ),
        ({"validation": 0, "evaluate_every_steps": 5}, [("heldout", 0), ("heldout", 5), ("heldout", 10)]),
        ({"heldout": 0, "evaluate_every_steps": 0}, []),
        ({"heldout": 0, "evaluate_every_steps": 10}, [("validation", 0), ("validation", 10)]),
    ],
)
def test_held_out_at_the_ends_and_validation_in_between(
    settings: dict[str, Any], expected: list[tuple[str, int]], tmp_path: Path
) -> None:
    run, _ = straight(tmp_path, config_of(evaluation_modes=["greedy"], **settings))
    assert evaluated(run) == greedy(*expected)


def test_each_evaluation_has_the_score_of_every_task_and_what_it_cost(tmp_path: Path) -> None:
    config = config_of(evaluate_every_steps=5)
    run, log = straight(tmp_path, config)
    tasks = task_sources.load(config.tasks)
    assert [mode for _, _, mode in evaluated(run)][:4] == ["sampled", "greedy"] * 2
    for each in deeds(run):
        if each["name"] == "evaluation_done":
            own = tasks.validation if each["split"] == "validation" else tasks.heldout
            assert list(each["scores"]) == [task.id for task in own]
            assert each["mean"] == pytest.approx(sum(each["scores"].values()) / each["count"])
            assert each["count"] == len(own)
    lines = [line for line in log.lines if line.get("event") == "evaluation"]
    assert len(lines) == len(evaluated(run))
    assert all(line["seconds"] >= 0 and line["cpu_seconds"] >= 0 and "scores" not in line for line in lines)


def test_training_does_not_depend_on_its_evaluations(tmp_path: Path) -> None:
    without, _ = straight(tmp_path / "without", config_of(heldout=0, validation=0))
    often, _ = straight(tmp_path / "often", config_of(heldout=0, validation=6, evaluate_every_steps=1))
    assert len(evaluated(often)) == 2 * (STEPS + 1)
    assert [each for each in deeds(often) if each["name"] != "evaluation_done"] == deeds(without)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    run, _ = straight(tmp_path_factory.mktemp("undisturbed"), config_of(evaluate_every_steps=1))
    return deeds(run)


@pytest.mark.parametrize("step", [0, 4, 5, 10])  # the start, within an epoch, between two, the end
@pytest.mark.parametrize("within", ["greedy", "rollout"])
def test_a_stop_in_or_after_an_evaluation_neither_loses_nor_repeats_it(
    within: str, step: int, undisturbed: list[dict[str, Any]], tmp_path: Path
) -> None:
    config = config_of(evaluate_every_steps=1)
    run = RunDir.create(tmp_path, "stopped", "0")
    finished, log = attempt(run, 1, config, step, within)
    assert log.stop is not finished
    assert attempt(run, 2, config)[0]
    assert deeds(run) == undisturbed


def test_the_best_policy_is_chosen_on_the_validation_tasks(tmp_path: Path) -> None:
    config = config_of(evaluate_every_steps=1)
    config = replace(config, training=replace(config.training, keep_best="greedy"))
    run, _ = straight(tmp_path, config)
    done = [each for each in deeds(run) if each["name"] == "evaluation_done" and each["mode"] == "greedy"]
    best = max((each for each in done if each["split"] == "validation"), key=lambda each: each["mean"])
    assert read_json(run.path / "policy_best" / "evaluation.json") == best
    newest = checkpoint.latest(run)
    assert newest is not None
    assert checkpoint.read_extra(newest)["evaluated"] == STEPS
