"""Our executor and checker beside BFCL's own, on all ground truths and on seeded mutations of them.

BFCL's checker stops at the first failed turn and judges no turn whose ground truth is empty: compared on that
basis. Its simulators leak between instances; what leaks is put back before each entry.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from rods.config import TasksConfig
from rods.simulation.checker import Judge
from rods.simulation.session import open_world
from rods.tasks import load
from rods.tasks.bfcl_package import read_records
from rods.tasks.model import Call, Task, TaskType

checker = pytest.importorskip("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker")
utils = pytest.importorskip("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils")
posting = pytest.importorskip("bfcl_eval.eval_checker.multi_turn_eval.func_source_code.posting_api")
extensions = pytest.importorskip("bfcl_eval.eval_checker.multi_turn_eval.func_source_code.long_context")

pytestmark = pytest.mark.slow

Turns = list[list[Call]]
LEAKY = ("CREDIT_CARD_EXTENSION", "BOOKING_RECORD_EXTENSION")
PRISTINE = {name: copy.deepcopy(getattr(extensions, name)) for name in LEAKY}


@pytest.fixture(scope="module")
def tasks() -> tuple[Task, ...]:
    loaded = load(TasksConfig(source="bfcl"))
    return (*loaded.train, *loaded.heldout)


@pytest.fixture(scope="module")
def entries() -> dict[str, dict[str, Any]]:
    found = {}
    for kind in TaskType:
        file = f"BFCL_v4_multi_turn_{kind.value}.json"
        for entry, answer in zip(read_records(file), read_records(f"possible_answer/{file}"), strict=True):
            found[entry["id"]] = {**entry, "ground_truth": answer["ground_truth"]}
    return found


@pytest.fixture(autouse=True)
def clean_modules() -> Iterator[None]:
    yield
    forget()


def forget() -> None:
    """Undo what the official simulators leave behind in their modules."""
    posting.TwitterAPI.post_tweet.__defaults__ = ([], [])
    for name, pristine in PRISTINE.items():
        table = getattr(extensions, name)
        table.clear()
        table.update(copy.deepcopy(pristine))
    for name in [name for name in vars(utils) if name.endswith("_instance")]:
        delattr(utils, name)


def official(entry: dict[str, Any], answers: Turns) -> tuple[int, str] | None:
    """(index, kind) of the first turn that BFCL's checker fails; None when it is satisfied."""
    forget()
    texts = [[[as_python(call)] for call in turn] for turn in answers]
    verdict = checker.multi_turn_checker(texts, entry["ground_truth"], entry, "", "differential")
    if verdict["valid"]:
        return None
    kind = verdict["error_type"].removeprefix("multi_turn:")
    if kind == "instance_state_mismatch":
        return len(verdict["execution_result"]) - 1, "state"
    turn = re.search(r"turn (\d+)", verdict["error_message"])
    assert turn is not None
    return int(turn[1]), {"empty_turn_model_response": "empty", "execution_response_mismatch": "response"}[
        kind
    ]


def ours(task: Task, answers: Turns) -> tuple[int, str] | None:
    world, judge = open_world(task), Judge(task, "official")
    results: list[str] = []
    for index, turn in enumerate(answers):
        results += [world.execute(call).text for call in turn]
        verdict = judge.close_turn(world, results, called=bool(turn))
        if not verdict.passed:
            return index, "empty" if not turn else "state" if not verdict.state else "response"
    return None


def as_python(call: Call) -> str:
    return f"{call.name}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())})"


def truth(task: Task) -> Turns:
    return [list(turn.calls) for turn in task.turns]


def mutate(answers: Turns, rng: random.Random) -> Turns:
    """One change: drop, duplicate, reorder, move, change an argument, or call something more."""
    changed = [list(turn) for turn in answers]
    filled = [turn for turn in changed if turn]
    turn = rng.choice(filled)
    index = rng.randrange(len(turn))
    match rng.choice(("drop", "duplicate", "reorder", "move", "argument", "omit", "extra")):
        case "drop":
            del turn[index]
        case "duplicate":
            turn.insert(index, turn[index])
        case "reorder":
            rng.shuffle(turn)
        case "move":
            rng.choice(changed).append(turn.pop(index))
        case "argument":
            turn[index] = changed_argument(turn[index], rng)
        case "omit":
            turn[index] = Call(turn[index].name, dict(list(turn[index].arguments.items())[1:]))
        case "extra":
            turn.insert(index, rng.choice(rng.choice(filled)))
    return changed


def changed_argument(call: Call, rng: random.Random) -> Call:
    if not call.arguments:
        return call
    name = rng.choice(sorted(call.arguments))
    value = call.arguments[name]
    other: Any
    if isinstance(value, bool):
        other = not value
    elif isinstance(value, int | float):
        other = value + 1
    elif isinstance(value, list):
        other = value[1:]
    elif isinstance(value, dict):
        other = {}
    else:
        other = rng.choice((value + "x", value.upper(), "", "."))
    return Call(call.name, {**call.arguments, name: other})


def test_results_equal_on_every_ground_truth(
    tasks: tuple[Task, ...], entries: dict[str, dict[str, Any]]
) -> None:
    for task in tasks:
        entry = entries[task.id]
        forget()
        world = open_world(task)
        for turn, texts in zip(task.turns, entry["ground_truth"], strict=True):
            expected, _ = utils.execute_multi_turn_func_call(
                func_call_list=texts,
                initial_config=entry["initial_config"],
                involved_classes=entry["involved_classes"],
                model_name="results",
                test_entry_id=task.id,
                long_context="long_context" in task.id,
            )
            assert [world.execute(call).text for call in turn.calls] == expected, task.id


def test_checkers_agree_on_every_ground_truth(
    tasks: tuple[Task, ...], entries: dict[str, dict[str, Any]]
) -> None:
    for task in tasks:
        assert official(entries[task.id], truth(task)) is None, task.id
        assert ours(task, truth(task)) is None, task.id


def test_checkers_agree_on_mutations(tasks: tuple[Task, ...], entries: dict[str, dict[str, Any]]) -> None:
    rng = random.Random(20)
    outcomes = set()
    for task in rng.sample(tasks, 400):
        answers = mutate(truth(task), rng)
        expected = official(entries[task.id], answers)
        shown = json.dumps([[call.to_json() for call in turn] for turn in answers])
        assert ours(task, answers) == expected, f"{task.id}: {shown}"
        outcomes.add(expected and expected[1])
    assert outcomes == {None, "state", "response", "empty"}
