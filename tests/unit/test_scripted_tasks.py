"""Scripted seed tasks: solvable on the real simulator, reproducible, and held out without repeats."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from itertools import product

import pytest

from rods.config import RewardConfig, SimulationConfig, TasksConfig
from rods.reward import build
from rods.simulation.session import Session, open_world
from rods.tasks import load
from rods.tasks.bfcl import RESTORED_QUERY
from rods.tasks.model import Task, TaskType, Turn
from rods.tasks.phrasebook import UnknownOperationError, operations
from rods.tasks.profile import leaves
from rods.tasks.scripted import KINDS, TYPES, ScriptedTasksError, generate
from rods.tasks.scripted_script import Script, write, write_in
from rods.tasks.scripted_states import CLASSES, random_state
from rods.tasks.scripted_world import LiveWorld, is_error

SIMULATION = SimulationConfig()
REWARD = RewardConfig()


def tasks(count: int, seed: int = 0) -> list[Task]:
    rng = random.Random(seed)
    return [generate(rng) for _ in range(count)]


def play(task: Task, skip_turn: int | None = None, turns: Sequence[Turn] = ()) -> float:
    """The reward for writing the calls of `turns` (the ground truth's) one by one; one turn may have none."""
    session = Session(task, SIMULATION, REWARD)
    for number, turn in enumerate(turns or task.turns):
        for call in turn.calls if number != skip_turn else ():
            session.advance(f"<tool_call>\n{json.dumps(call.to_json())}\n</tool_call>")
        session.advance("Done.")
    assert session.finished
    return build("progress")(session.outcome())


def test_ground_truth_runs_without_errors_and_as_the_simulation_runs_it() -> None:
    for task in tasks(200):
        plain, simulated = LiveWorld.open(task.initial_state), open_world(task)
        for call in (call for turn in task.turns for call in turn.calls):
            result = simulated.execute(call)
            assert not result.failed
            assert plain.execute(call) == result.text


@pytest.mark.parametrize("type", list(dict.fromkeys(TYPES)))
def test_ground_truth_earns_everything_in_every_kind_and_type(type: TaskType) -> None:
    rng = random.Random(f"earns {type}")
    for kind in KINDS:
        for _ in range(3):
            task = generate(rng, kind, type=type)
            assert (task.kind, task.type) == (kind, type)
            assert play(task) == 1.0


def test_a_turn_left_out_costs_reward() -> None:
    for task in tasks(40, seed=2):
        needed = next(number for number, turn in enumerate(task.turns) if turn.calls)
        assert play(task, skip_turn=needed) <= 1 - 1 / len(task.turns)


@pytest.mark.parametrize("type", [TaskType.MISS_FUNC, TaskType.MISS_PARAM])
def test_calling_at_once_where_something_is_missing_costs_reward(type: TaskType) -> None:
    rng = random.Random(f"hasty {type}")
    for _ in range(20):
        task = generate(rng, type=type)
        gap = next(number for number, turn in enumerate(task.turns) if not turn.calls)
        hasty = Turn(task.turns[gap].query, task.turns[gap + 1].calls)
        assert play(task, turns=(*task.turns[:gap], hasty, *task.turns[gap + 1 :])) < 1.0


def test_a_withheld_function_comes_back_with_the_turn_after_the_one_that_needs_it() -> None:
    rng = random.Random(8)
    for _ in range(60):
        task = generate(rng, type=TaskType.MISS_FUNC)
        (name,) = task.withheld
        back = next(number for number, turn in enumerate(task.turns) if turn.restored)
        assert task.turns[back].restored == (name,)
        assert task.turns[back].query == RESTORED_QUERY
        assert task.turns[back - 1].calls == ()
        assert name in {call.name for call in task.turns[back].calls}
        assert all(call.name != name for turn in task.turns[:back] for call in turn.calls)
        shown = Session(task, SIMULATION, REWARD).tools
        assert name not in {tool["function"]["name"] for tool in shown}


def test_a_value_left_out_is_told_by_nothing_before_the_turn_that_gives_it() -> None:
    rng = random.Random(9)
    for _ in range(60):
        task = generate(rng, type=TaskType.MISS_PARAM)
        gap = next(number for number, turn in enumerate(task.turns) if not turn.calls)
        world = LiveWorld.open(task.initial_state)
        results = [world.execute(call) for turn in task.turns[:gap] for call in turn.calls]
        told = "\n".join([*results, *(turn.query for turn in task.turns[: gap + 1])])
        needed = [str(leaf) for call in task.turns[gap + 1].calls for leaf in leaves(dict(call.arguments))]
        said = [leaf for leaf in needed if leaf in task.turns[gap + 1].query]
        assert said
        assert any(leaf not in told for leaf in said)


def test_each_kind_draws_its_own_operations() -> None:
    rng = random.Random(3)
    for name, kind in KINDS.items():
        for _ in range(5):
            task = generate(rng, name)
            assert task.kind == name
            assert task.classes == kind.classes
            assert set(operations(task)) <= set(kind.operations)


def test_three_classes_are_used_alone_and_together() -> None:
    assert {kind.classes for kind in KINDS.values()} == {(name,) for name in CLASSES} | {CLASSES}


def test_the_number_of_requests_can_be_fixed() -> None:
    rng = random.Random(4)
    for type, more in ((TaskType.BASE, 0), (TaskType.MISS_FUNC, 1), (TaskType.MISS_PARAM, 1)):
        assert {len(generate(rng, requests=3, type=type).turns) for _ in range(20)} == {3 + more}
    assert {len(operations(generate(rng))) for _ in range(100)} == {1, 2, 3, 4}


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ScriptedTasksError, match=r"'juggle'.*view, tickets"):
        generate(random.Random(0), "juggle")


def test_a_type_that_scripted_tasks_do_not_have_is_refused() -> None:
    with pytest.raises(ScriptedTasksError, match="'long_context': there are base, miss_func, miss_param"):
        generate(random.Random(0), type=TaskType.LONG_CONTEXT)


def test_loading_takes_kinds_and_types_in_turn_and_repeats_nothing() -> None:
    found = load(
        TasksConfig(source="scripted", train_count=60, heldout_count=60, validation_count=30, seed=0)
    )
    for part in (found.train, found.heldout, found.validation):
        assert [task.kind for task in part] == (list(KINDS) * 4)[: len(part)]
        assert [task.type for task in part] == (list(TYPES) * 15)[: len(part)]
    assert {(task.kind, task.type) for task in found.train} == set(product(KINDS, TYPES))
    everything = [*found.train, *found.heldout, *found.validation]
    assert len({task.id for task in everything}) == 150
    assert len({task.content_id() for task in everything}) == 150
    asked, held_out, validating = (
        {json.dumps([turn.to_json()["calls"] for turn in task.turns]) for task in part}
        for part in (found.train, found.heldout, found.validation)
    )
    assert not asked & held_out
    assert not validating & (asked | held_out)


def test_calls_of_training_tasks_never_return_in_the_others() -> None:
    # One-turn `ls` and `who` tasks would collide in nearly every large draw if they were let through.
    counts = {"train_count": 240, "heldout_count": 240, "validation_count": 240}
    found = load(TasksConfig(source="scripted", seed=1, **counts))
    asked, held_out, validating = (
        {json.dumps([turn.to_json()["calls"] for turn in task.turns]) for task in part}
        for part in (found.train, found.heldout, found.validation)
    )
    assert any(len(json.loads(text)) == 1 for text in asked)
    assert not asked & held_out
    assert not validating & asked
    assert not validating & held_out


def test_nobody_asks_for_the_only_file_there_is() -> None:
    rng = random.Random(10)
    asked = 0
    for _ in range(400):
        script = write(rng, "manage", KINDS["manage"].classes, [("rm",), ("rm",)])
        if script is not None:
            second = script.omissions[1]
            world = LiveWorld.open(script.state)
            world.execute(script.turns[0].calls[0])
            asked += second is not None
            assert second is None or len(world.files()) > 1
    assert asked


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


def compose(rng: random.Random, kind: str, names: Sequence[str]) -> Script | None:
    """These operations in a fresh world of the kind's classes."""
    return write(rng, kind, KINDS[kind].classes, [(name,) for name in names])


def test_composing_in_a_world_that_is_given_leaves_it_as_it_is() -> None:
    state = random_state(random.Random(3), CLASSES)
    before = json.dumps(state)
    scripts = [write_in(random.Random(draw), "view", state, [("cat", "ls"), ("wc",)]) for draw in range(40)]
    made = [script for script in scripts if script]
    assert made
    assert json.dumps(state) == before
    assert all(script.state == state for script in made)
    assert {operations(script.task(TaskType.BASE, script.turns)) for script in made} == {
        ("cat", "wc"),
        ("ls", "wc"),
    }


def test_composing_repeats_operations_with_fresh_content() -> None:
    rng = random.Random(6)
    composed = 0
    for seed in tasks(60, seed=7):
        names = operations(seed)
        script = next(filter(None, (compose(rng, seed.kind, names) for _ in range(50))))
        variant = script.finished(TaskType.BASE, rng)
        assert variant is not None
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
