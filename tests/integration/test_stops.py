"""A run that is asked to stop leaves rollouts in their middle, an update never; one that hangs ends by itself.

And what it keeps: the best policy, through a stop as well."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from soak.harness import soak_config
from soak.policy import STATE, ChainPolicy

from launchers import snapshot
from launchers.identity import config_hash
from rods import tasks as task_sources
from rods.config import Config
from rods.exchange.atomic import read_json
from rods.exchange.lineage import history
from rods.exchange.rundir import RunDir
from rods.roles.train import assemble
from rods.training import checkpoint
from rods.training.heldout import Exam
from rods.training.loop import Loop

ROOT = Path(__file__).parents[2]
SETTINGS: dict[str, Any] = {
    "training": {"epochs": 2, "evaluate_every_epochs": 1, "checkpoint_every_steps": 0},
    "synthesis": {"enabled": False},
}
pytestmark = pytest.mark.timeout(120)


class Wish:
    """A watcher whose wish to stop is a switch."""

    def __init__(self) -> None:
        self.stop = False
        self.steps = 0

    def beat(self, phase: str, **info: Any) -> None:
        """Nobody looks."""

    def log(self, record: dict[str, Any]) -> None:
        """Nobody reads."""

    def keep(self, step: int, groups: Sequence[Any]) -> None:
        """Count."""
        self.steps += 1

    def stop_requested(self) -> bool:
        """As the switch stands."""
        return self.stop


class Interrupted(ChainPolicy):
    """A policy in whose rollouts, update or evaluation the wish to stop comes up."""

    def __init__(self, config: Config, wish: Wish, moment: str) -> None:
        super().__init__(config)
        self._wish, self._moment = wish, moment
        self.left_in: list[str] = []

    def run(
        self,
        tasks: Sequence[Any],
        step: int,
        on_progress: Callable[[int, int], None],
        on_phase: Callable[[str], None],
        upcoming: Sequence[Any] = (),
    ) -> Any:
        """A step that plays, updates, and plays on for the step after it."""
        self._come_to("rollout", step, lambda: on_progress(0, 1))
        on_phase("update")
        result = super().run(tasks, step, lambda done, total: None, on_phase, upcoming)
        self._come_to("update", step, lambda: on_progress(0, 1))
        return result

    def evaluate(self, tasks: Sequence[Any], exam: Exam, on_progress: Any) -> Any:
        """An evaluation."""
        if exam.epoch:
            self._come_to("evaluation", 2, lambda: on_progress(0, 1))
        return super().evaluate(tasks, exam, on_progress)

    def _come_to(self, moment: str, step: int, tell: Callable[[], None]) -> None:
        if moment == self._moment and step == 2:
            self._wish.stop = True
            self.left_in.append(moment)
            tell()
            self.left_in.pop()


def attempt(run: RunDir, number: int, config: Config, moment: str = "") -> tuple[bool, Wish, Interrupted]:
    """One attempt: whether the run finished, and who took part."""
    run.attempt_dir(number).mkdir(parents=True)
    wish = Wish()
    policy = Interrupted(config, wish, moment)
    tasks = task_sources.load(config.tasks)
    parts = assemble(run, number, config, tasks, policy, wish)  # type: ignore[arg-type]
    finished = Loop(parts).run()
    parts.ledger.close()
    return finished, wish, policy


def deeds(run: RunDir) -> list[dict[str, Any]]:
    return [record for record in history(run.journal_dir, "train") if record["name"] != "run_started"]


def settings(deadline_s: float, **more: Any) -> Config:
    return soak_config(launch={"stop_deadline_s": deadline_s}, **SETTINGS, **more)


def straight(folder: Path) -> list[dict[str, Any]]:
    run = RunDir.create(folder / "straight", "stops", "0")
    assert attempt(run, 1, settings(0.0))[0]
    return deeds(run)


@pytest.mark.parametrize("moment", ["rollout", "evaluation"])
def test_rollouts_are_left_in_their_middle_and_drawn_again(moment: str, tmp_path: Path) -> None:
    run, config = RunDir.create(tmp_path, "stops", "0"), settings(0.0)
    finished, _, policy = attempt(run, 1, config, moment)
    assert not finished
    assert policy.left_in == [moment]
    assert attempt(run, 2, config)[0]
    assert deeds(run) == straight(tmp_path)


def test_an_update_that_has_begun_is_finished_and_kept(tmp_path: Path) -> None:
    run, config = RunDir.create(tmp_path, "stops", "0"), settings(0.0)
    finished, wish, policy = attempt(run, 1, config, "update")
    assert (finished, policy.left_in, wish.steps) == (False, [], 2)
    newest = checkpoint.latest(run)
    assert newest is not None
    assert checkpoint.read_extra(newest)["step"] == 2
    assert attempt(run, 2, config)[0]
    assert deeds(run) == straight(tmp_path)


def test_within_the_deadline_a_step_may_end(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, "stops", "0")
    finished, wish, policy = attempt(run, 1, settings(3600.0), "rollout")
    assert (finished, policy.left_in, wish.steps) == (False, [], 2)


@pytest.mark.parametrize("stop_at", ["", "evaluation"])
def test_the_best_policy_is_that_of_the_best_evaluation(stop_at: str, tmp_path: Path) -> None:
    config = settings(0.0)
    config = replace(config, training=replace(config.training, epochs=6, keep_best="greedy"))
    run = RunDir.create(tmp_path, "best", "0")
    if stop_at:
        assert not attempt(run, 1, config, stop_at)[0]
    assert attempt(run, 2, config)[0]
    greedy = [each for each in deeds(run) if each["name"] == "evaluation_done" and each["mode"] == "greedy"]
    best = max(greedy, key=lambda each: each["mean"])
    assert read_json(run.path / "policy_best" / "evaluation.json") == best
    assert read_json(run.path / "policy_best" / STATE)["steps"] == best["step"]
    assert best["step"] < greedy[-1]["step"]  # else the last policy would do


HANGING = """
import sys
from pathlib import Path
from soak.policy import ChainPolicy
from rods.exchange.rundir import RunDir
from rods.roles.train import train

class Hangs(ChainPolicy):
    def run(self, *given):
        import threading
        threading.Event().wait()

sys.exit(train(RunDir.open(Path(sys.argv[1])), 1, lambda config, tasks: Hangs(config)))
"""


def test_a_run_in_which_nothing_moves_tells_its_stacks_and_ends(tmp_path: Path) -> None:
    config = soak_config(launch={"watchdog_s": 2.0}, **SETTINGS)
    run = RunDir.create(tmp_path, "hangs", config_hash(config))
    snapshot.freeze_config(run, config)
    run.attempt_dir(1).mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-c", HANGING, str(run.path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "Timeout (0:00:02)!" in done.stderr
    assert "in run" in done.stderr
    assert "_train_step" in done.stderr
