"""Runs whose checkpoints are written while they train end as those that wait for them, stopped and killed as well."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from soak.harness import Killer, Nursery, Tally, differences, finish, soak_config, supervisor_log
from soak.policy import ChainPolicy
from test_stages import Impatient

from launchers.identity import config_hash
from rods import tasks as task_sources
from rods.exchange import stop
from rods.exchange.atomic import read_json
from rods.exchange.lineage import history
from rods.exchange.rundir import RunDir
from rods.roles.train import assemble
from rods.training import checkpoint
from rods.training.loop import Loop

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
KILLS = 3


def settings(in_background: bool, **more: Any) -> Any:
    training = {"epochs": 4, "checkpoint_every_steps": 1, "keep_best": "greedy"}
    return soak_config(seed=5, training={**training, "async_checkpoint": in_background}, **more)


def play(folder: Path, in_background: bool, steps_an_attempt: int | None) -> tuple[Any, Any, Any]:
    """The run in this process, without a synthesis job: its deeds, its newest checkpoint's policy, its best one."""
    config = settings(in_background, synthesis={"enabled": False})
    run = RunDir.create(folder, "saving", config_hash(config))
    tasks = task_sources.load(config.tasks)
    finished, attempt = False, 0
    while not finished:
        attempt += 1
        run.attempt_dir(attempt).mkdir(parents=True, exist_ok=True)
        watcher = Impatient(steps_an_attempt)
        parts = assemble(run, attempt, config, tasks, ChainPolicy(config), watcher)  # type: ignore[arg-type]
        finished = Loop(parts).run()
        newest = checkpoint.latest(run)
        assert newest is not None
        assert checkpoint.read_extra(newest)["step"] == parts.ledger.state.step, (
            "the stop waits for the last one"
        )
        parts.ledger.close()
    deeds = [record for record in history(run.journal_dir, "train") if record["name"] != "run_started"]
    return deeds, read_json(newest / "chain.json"), read_json(run.path / "policy_best" / "chain.json")


def test_a_stopped_run_that_writes_meanwhile_equals_the_straight_one_that_waits(tmp_path: Path) -> None:
    straight = play(tmp_path / "straight", False, None)
    assert play(tmp_path / "beside", True, None) == straight
    assert play(tmp_path / "stopped", True, 2) == straight


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    nursery = Nursery(tmp_path)
    yield nursery
    nursery.close()


def test_a_killed_run_that_writes_meanwhile_equals_the_undisturbed_one(
    nursery: Nursery, tmp_path: Path
) -> None:
    straight, crashed = (nursery.create(tmp_path / "runs", settings(True)) for _ in range(2))
    assert nursery.finish(straight) == 0, supervisor_log(straight)
    tally = Tally()
    killer = Killer(nursery, crashed, random.Random(4), tally)
    while tally.kills < KILLS and not stop.is_finished(crashed):
        killer.attempt()
    finish(nursery, crashed)
    assert differences(straight, crashed) == []
