"""Our extensions together, through the real loop and daemon: a killed run still equals the straight one."""

from __future__ import annotations

import json
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
from rods.tasks.model import Origin, Task
from rods.training.loop import Loop

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CONFIG = soak_config(
    seed=5,
    boundary={
        "selection": "posterior",
        "posterior_rollouts": 4,
        "depth_shift": "adaptive",
        "dry_below": 1.0,
    },
    buffer={"injection": "stream", "sampling": "prioritised", "review_epochs": 1, "burn_in": 0},
)
KILLS = 8


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    nursery = Nursery(tmp_path)
    yield nursery
    nursery.close()


def moved_variants(run: RunDir) -> list[Task]:
    """The variants that were asked to be a step away from their seeds; all of them are."""
    shifts = {
        deed["key"]: deed["depth_shift"]
        for deed in history(run.journal_dir, "train")
        if deed["name"] == "seed_emitted"
    }
    seeds = {key: Task.from_json(run.queue("seeds").read("done", key)["task"]) for key in shifts}
    lines = [line for path in run.path.glob("expanded/*.jsonl") for line in path.read_text().splitlines()]
    variants = [Task.from_json(json.loads(line)) for line in lines]
    for variant in variants:
        key = variant.provenance["key"]
        assert variant.provenance["depth_shift"] == shifts[key]
        assert len(variant.turns) == len(seeds[key].turns) + shifts[key]
    return [variant for variant in variants if variant.provenance["depth_shift"]]


def test_a_run_with_all_extensions_survives_kills_unchanged(nursery: Nursery, tmp_path: Path) -> None:
    straight, crashed = (nursery.create(tmp_path / "runs", CONFIG) for _ in range(2))
    assert nursery.finish(straight) == 0, supervisor_log(straight)
    deeds = results(straight)["deeds"]
    arrived = {deed["task_id"]: deed["step"] for deed in deeds if deed["name"] == "variant_arrived"}
    entered = {deed["task_id"]: deed["step"] for deed in deeds if deed["name"] == "variant_injected"}
    assert any(entered[task] == arrived[task] for task in entered), "nothing was streamed"
    assert any(deed["name"] == "task_readmitted" for deed in deeds), "nothing was reviewed"
    assert moved_variants(straight), "no variant is deeper or shallower"
    tally = Tally()
    killer = Killer(nursery, crashed, random.Random(1), tally)
    while tally.kills < KILLS and not stop.is_finished(crashed):
        killer.attempt()
    finish(nursery, crashed)
    assert tally.kills >= KILLS
    assert differences(straight, crashed) == []


class Answering:
    """A watcher that answers every seed after its step, with one variant."""

    def __init__(self, run: RunDir) -> None:
        self._seeds, self._variants = run.queue("seeds"), run.queue("variants")

    def beat(self, phase: str, **info: Any) -> None:
        """Nobody looks."""

    def log(self, record: dict[str, Any]) -> None:
        """Nobody reads."""

    def keep(self, step: int, groups: Sequence[Any]) -> None:
        """The step is over: answer its seeds."""
        for claim in self._seeds.claim_many("answering", 99):
            for message in claim.messages:
                seed = Task.from_json(message.content["task"])
                turns = (
                    replace(seed.turns[0], query=f"{seed.turns[0].query} ({message.key})"),
                    *seed.turns[1:],
                )
                variant = replace(
                    seed, id=f"v-{message.key}", turns=turns, origin=Origin.VARIANT, seed_id=seed.seed_id
                )
                self._variants.put(
                    message.key,
                    {"key": message.key, "tasks": [variant.to_json()], "outcome": "published", "reason": ""},
                )

    def stop_requested(self) -> bool:
        """Never."""
        return False


def journal(tmp_path: Path, config: Config) -> list[dict[str, Any]]:
    """What a run to its end, without a synthesis job, has journaled."""
    run = RunDir.create(tmp_path, "answered", config_hash(config))
    run.next_attempt()
    tasks = task_sources.load(config.tasks)
    parts = assemble(run, 1, config, tasks, ChainPolicy(config), Answering(run))  # type: ignore[arg-type]
    assert Loop(parts).run()
    parts.ledger.close()
    return history(run.journal_dir, "train")


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("one_step_off", [False, True])
def test_tasks_that_leave_or_join_an_epoch_put_none_twice_into_a_step(
    tmp_path: Path, seed: int, one_step_off: bool
) -> None:
    config = soak_config(
        seed,
        buffer={"barrier": False, "sampling": "prioritised", "injection": "stream", "burn_in": 0},
        rollout={"one_step_off": one_step_off},
    )
    deeds = journal(tmp_path, config)
    names = {deed["name"] for deed in deeds}
    assert {"task_retired", "variant_injected"} <= names
    observed = [(deed["step"], deed["task_id"]) for deed in deeds if deed["name"] == "group_observed"]
    assert len(observed) == len(set(observed)) > 50


def test_uniform_seeds_come_from_the_whole_pool_and_no_variant_retires_for_its_reward(tmp_path: Path) -> None:
    buffer = {"barrier": False, "retire": False, "capacity": 400}
    config = soak_config(1, training={"epochs": 3}, boundary={"selection": "uniform"}, buffer=buffer)
    deeds = journal(tmp_path, config)
    seen = {(deed["step"], deed["task_id"]) for deed in deeds if deed["name"] == "group_observed"}
    drawn = [(deed["step"], deed["task_id"]) for deed in deeds if deed["name"] == "seed_emitted"]
    assert set(drawn) - seen, "every seed was of its own step"
    means = [deed["mean"] for deed in deeds if deed["name"] == "seed_emitted"]
    low, high = config.boundary.alpha_low, config.boundary.alpha_high
    assert {mean < low for mean in means} == {mean > high for mean in means} == {True, False}
    assert not any(deed["name"] == "task_retired" for deed in deeds)


class Stopped(Answering):
    """Answers at the barrier, unless it is one of the looks at which it asks to stop."""

    looks = 0

    def __init__(self, run: RunDir, stops: Sequence[int]) -> None:
        super().__init__(run)
        self._stops, self._stop = stops, False

    def beat(self, phase: str, **info: Any) -> None:
        """Answer, or ask to stop."""
        if phase != "barrier":
            return
        Stopped.looks += 1
        self._stop = Stopped.looks in self._stops
        if not self._stop:
            super().keep(0, [])

    def keep(self, step: int, groups: Sequence[Any]) -> None:
        """Nothing is answered before it is waited for."""

    def stop_requested(self) -> bool:
        """Whether it has asked."""
        return self._stop


def stopped_at(folder: Path, stops: Sequence[int]) -> tuple[int, list[dict[str, Any]]]:
    """Attempts and deeds of a streaming run that is stopped at these looks at the barrier."""
    buffer = {"barrier": True, "injection": "stream", "sampling": "prioritised", "barrier_timeout_s": 60.0}
    config = soak_config(2, training={"epochs": 3}, buffer=buffer)
    run, tasks, finished = (
        RunDir.create(folder, "waits", config_hash(config)),
        task_sources.load(config.tasks),
        False,
    )
    Stopped.looks = 0
    while not finished:
        watcher = Stopped(run, stops)
        parts = assemble(run, run.next_attempt(), config, tasks, ChainPolicy(config), watcher)  # type: ignore[arg-type]
        finished = Loop(parts).run()
        parts.ledger.close()
    deeds = history(run.journal_dir, "train")
    return run.last_attempt(), [deed for deed in deeds if deed["name"] != "run_started"]


def test_a_stop_while_a_step_waits_for_its_variants_changes_nothing(tmp_path: Path) -> None:
    straight, stopped = stopped_at(tmp_path, []), stopped_at(tmp_path, [2, 5])
    assert (straight[0], stopped[0]) == (1, 3)
    assert stopped[1] == straight[1]
