"""Scripted seed tasks: solvable on the real simulator, reproducible, and held out without repeats."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import pytest

from rods.config import RewardConfig, SimulationConfig, TasksConfig
from rods.reward import build
from rods.simulation.session import Session, open_world
from rods.tasks import load
from rods.tasks.model import Task
from rods.tasks.phrasebook import UnknownOperationError, operations
from rods.tasks.scripted import KINDS, ScriptedTasksError, compose, generate
from rods.tasks.scripted_world import FileWorld, is_error

SIMULATION = SimulationConfig()
REWARD = RewardConfig()


def tasks(count: int, seed: int = 0) -> list[Task]:
    rng = random.Random(seed)
    return [generate(rng) for _ in range(count)]


def play(task: Task, skip_turn: int | None = None) -> float:
    """The reward for writing the ground truth's calls one by one; one turn may be answered without calls."""
    session = Session(task, SIMULATION, REWARD)
    for number, turn in enumerate(task.turns):
        for call in turn.calls if number != skip_turn else ():
            session.advance(f"<tool_call>\n{json.dumps(call.to_json())}\n</tool_call>")
        session.advance("Done.")
    assert session.finished
    return build("progress")(session.outcome())


def test_ground_truth_runs_without_errors_and_as_the_simulation_runs_it() -> None:
    for task in tasks(200):
        plain, simulated = FileWorld.open(task.initial_state), open_world(task)
        for call in (call for turn in task.turns for call in turn.calls):
            result = simulated.execute(call)
            assert not result.failed
            assert plain.execute(call) == result.text


def test_ground_truth_earns_everything() -> None:
    assert all(play(task) == 1.0 for task in tasks(60, seed=1))


def test_a_turn_left_out_costs_reward() -> None:
    for task in tasks(40, seed=2):
        assert play(task, skip_turn=0) <= 1 - 1 / len(task.turns)


def test_each_kind_draws_its_own_operations() -> None:
    rng = random.Random(3)
    for kind, names in KINDS.items():
        for _ in range(5):
            task = generate(rng, kind)
            assert task.kind == kind
            assert set(operations(task)) <= set(names)


def test_the_number_of_turns_can_be_fixed() -> None:
    rng = random.Random(4)
    assert {len(generate(rng, turns=3).turns) for _ in range(20)} == {3}
    assert {len(generate(rng).turns) for _ in range(100)} == {1, 2, 3, 4}


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ScriptedTasksError, match=r"'juggle'.*view, create"):
        generate(random.Random(0), "juggle")


def test_loading_cycles_through_the_kinds_and_repeats_nothing() -> None:
    found = load(TasksConfig(source="scripted", train_count=48, heldout_count=48, seed=0))
    assert [task.kind for task in found.train] == list(KINDS) * 4
    assert [task.kind for task in found.heldout] == list(KINDS) * 4
    everything = [*found.train, *found.heldout]
    assert len({task.id for task in everything}) == 96
    assert len({task.content_id() for task in everything}) == 96
    asked = {json.dumps([turn.to_json()["calls"] for turn in task.turns]) for task in found.train}
    held_out = {json.dumps([turn.to_json()["calls"] for turn in task.turns]) for task in found.heldout}
    assert not asked & held_out


def test_calls_of_training_tasks_never_return_in_the_held_out_ones() -> None:
    # One-turn `ls` and `pwd` tasks would collide in nearly every large draw if they were let through.
    found = load(TasksConfig(source="scripted", train_count=240, heldout_count=240, seed=1))
    asked = {json.dumps([turn.to_json()["calls"] for turn in task.turns]) for task in found.train}
    assert any(text == json.dumps([[{"name": "pwd", "arguments": {}}]]) for text in asked)
    assert not any(
        json.dumps([turn.to_json()["calls"] for turn in task.turns]) in asked for task in found.heldout
    )


def test_another_seed_gives_other_tasks_and_a_larger_set_begins_with_the_smaller() -> None:
    small = load(TasksConfig(source="scripted", train_count=6, heldout_count=0, seed=0))
    large = load(TasksConfig(source="scripted", train_count=12, heldout_count=0, seed=0))
    other = load(TasksConfig(source="scripted", train_count=6, heldout_count=0, seed=1))
    assert large.train[:6] == small.train
    assert not {task.id for task in other.train} & {task.id for task in small.train}
    assert len({small.fingerprint, large.fingerprint, other.fingerprint}) == 3


def test_counts_must_be_given() -> None:
    with pytest.raises(ScriptedTasksError, match=r"tasks\.train_count"):
        load(TasksConfig(source="scripted", train_count=None, heldout_count=4))


def test_tasks_do_not_depend_on_the_hash_seed() -> None:
    program = (
        "from rods.config import TasksConfig; from rods.tasks import load;"
        "print(load(TasksConfig(source='scripted', train_count=24, heldout_count=12, seed=5)).fingerprint)"
    )
    prints = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(prints) == 1
    assert len(prints.pop().strip()) == 64


def test_composing_repeats_operations_with_fresh_content() -> None:
    rng = random.Random(6)
    composed = 0
    for seed in tasks(60, seed=7):
        names = operations(seed)
        variant = next(filter(None, (compose(rng, seed.kind, names) for _ in range(50))))
        assert operations(variant) == names
        assert variant.kind == seed.kind
        assert variant.content_id() != seed.content_id()
        composed += play(variant) == 1.0
    assert composed == 60


def test_composing_what_no_workspace_allows_is_none() -> None:
    # Nothing to go up to at the root, whatever is drawn.
    assert compose(random.Random(0), "navigate", ("up",)) is None


def test_composing_an_unknown_operation_is_an_error() -> None:
    with pytest.raises(UnknownOperationError, match="'fly'"):
        compose(random.Random(0), "navigate", ("fly",))


def test_error_results_are_told_from_good_ones() -> None:
    assert is_error('{"error": "cat: no"}')
    assert is_error("Error during execution: File exists")
    assert not is_error('{"file_content": "error warning"}')
    assert not is_error("None")
