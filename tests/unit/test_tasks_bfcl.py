"""The 800 entries: split, types, ground truth; and that each ground truth earns exactly 1."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rods.config import RewardConfig, SimulationConfig, TasksConfig
from rods.registry import UnknownNameError
from rods.reward import build
from rods.simulation.calls import validate
from rods.simulation.functions import documentation
from rods.simulation.session import Outcome, Session
from rods.tasks import bfcl_package, load
from rods.tasks.bfcl import RESTORED_QUERY, BfclFormatError, parse_call
from rods.tasks.bfcl_package import BfclMissingError
from rods.tasks.model import Call, Task, TaskType
from rods.tasks.taskset import TaskCountError, TaskSet


@pytest.fixture(scope="module")
def tasks() -> TaskSet:
    return load(TasksConfig(source="bfcl"))


def index(task: Task) -> int:
    return int(task.id.rsplit("_", 1)[1])


def test_the_split_is_400_and_400_without_siblings_across(tasks: TaskSet) -> None:
    assert len(tasks.train) == len(tasks.heldout) == 400
    assert len({task.id for task in (*tasks.train, *tasks.heldout)}) == 800
    for part in (tasks.train, tasks.heldout):
        assert Counter(task.type for task in part) == dict.fromkeys(TaskType, 100)
    train, heldout = {index(task) for task in tasks.train}, {index(task) for task in tasks.heldout}
    assert not train & heldout
    # random.Random(42).shuffle of 0..199: pinned, since the split must never move.
    assert [index(task) for task in tasks.train[::4]][:8] == [66, 187, 101, 193, 111, 121, 13, 2]
    assert [index(task) for task in tasks.heldout[::4]][:4] == [174, 4, 29, 183]


def test_every_prefix_holds_the_types_in_equal_parts() -> None:
    some = load(TasksConfig(source="bfcl", train_count=8, heldout_count=0))
    assert Counter(task.type for task in some.train) == dict.fromkeys(TaskType, 2)
    assert some.heldout == ()
    with pytest.raises(TaskCountError, match=r"tasks\.train_count = 401"):
        load(TasksConfig(source="bfcl", train_count=401))


def test_the_fingerprint_is_that_of_the_content(tasks: TaskSet) -> None:
    assert load(TasksConfig(source="bfcl", seed=5)).fingerprint == tasks.fingerprint
    assert load(TasksConfig(source="bfcl", train_count=399)).fingerprint != tasks.fingerprint


def test_tasks_survive_json(tasks: TaskSet) -> None:
    for task in tasks.train[:40]:
        assert Task.from_json(json.loads(json.dumps(task.to_json()))) == task


def test_all_calls_are_documented_and_named(tasks: TaskSet) -> None:
    calls = 0
    for task in (*tasks.train, *tasks.heldout):
        docs = documentation(task.classes)
        for turn in task.turns:
            for call in turn.calls:
                validate(call, docs)
                calls += 1
    assert calls == 4625


def test_missed_functions_are_withheld_until_their_turn(tasks: TaskSet) -> None:
    for task in (*tasks.train, *tasks.heldout):
        restored = [name for turn in task.turns for name in turn.restored]
        assert sorted(restored) == sorted(task.withheld)
        assert bool(task.withheld) == (task.type is TaskType.MISS_FUNC)
        for turn in task.turns:
            assert turn.query
            assert (turn.query == RESTORED_QUERY) == bool(turn.restored)


def test_a_function_needed_before_it_returns_is_not_withheld(tasks: TaskSet) -> None:
    (odd,) = [task for task in (*tasks.train, *tasks.heldout) if task.id == "multi_turn_miss_func_49"]
    assert odd.withheld == ("wc", "cat")


def replay(task: Task, *, one_message: bool) -> Outcome:
    """The ground truth as an ideal policy would write it."""
    session = Session(task, SimulationConfig(step_limit=1 if one_message else 40), RewardConfig())
    for turn in task.turns:
        texts = [f"<tool_call>\n{json.dumps(call.to_json())}\n</tool_call>" for call in turn.calls]
        for text in ["\n".join(texts)] if one_message and texts else texts:
            session.advance(text)
        session.advance("Done.")
    assert session.finished
    return session.outcome()


@pytest.mark.slow
@pytest.mark.parametrize("one_message", [False, True])
def test_every_ground_truth_earns_exactly_one(tasks: TaskSet, one_message: bool) -> None:
    progress = build("progress")
    short = {
        task.id: reward
        for task in (*tasks.train, *tasks.heldout)
        if (reward := progress(replay(task, one_message=one_message))) != 1.0
    }
    assert short == {}


@pytest.mark.slow
def test_silence_earns_only_the_turns_without_ground_truth(tasks: TaskSet) -> None:
    for task in tasks.train:
        session = Session(task, SimulationConfig(), RewardConfig())
        for _ in task.turns:
            session.advance("Done.")
        empty = sum(not turn.calls for turn in task.turns) / len(task.turns)
        assert build("progress")(session.outcome()) == empty


def test_ground_truth_is_read_as_syntax() -> None:
    classes = ("GorillaFileSystem",)
    assert parse_call("sort('a.txt')", classes) == Call("sort", {"file_name": "a.txt"})
    assert parse_call("mv('a', destination='b')", classes) == Call("mv", {"source": "a", "destination": "b"})
    assert parse_call("tail(file_name='a', lines=-3)", classes) == Call(
        "tail", {"file_name": "a", "lines": -3}
    )


@pytest.mark.parametrize(
    "text",
    [
        "sort(__import__('os').system('true'))",
        "os.system('true')",
        "sort(",
        "sort",
        "sort(name)",
        "sort(**{'file_name': 'a'})",
        "sort(*['a'])",
        "sort('a', 'b')",
        "sort('a', file_name='b')",
        "_load_scenario({})",
        "add(1, 2)",
        "sort('a'); sort('b')",
    ],
)
def test_anything_but_a_literal_call_is_refused(text: str) -> None:
    with pytest.raises(BfclFormatError):
        parse_call(text, ("GorillaFileSystem",))


def test_a_missing_package_is_one_sentence_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(bfcl_package, "files", absent)
    with pytest.raises(BfclMissingError, match=r"pip install --no-deps bfcl-eval==2026\.3\.23") as caught:
        load(TasksConfig(source="bfcl"))
    assert "\n" not in str(caught.value)


def test_a_missing_data_file_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bfcl_package, "files", lambda name: tmp_path)
    with pytest.raises(BfclMissingError, match="BFCL_v4_multi_turn_base"):
        load(TasksConfig(source="bfcl"))


def test_another_version_of_the_data_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for folder in ("data", "data/possible_answer"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "BFCL_v4_multi_turn_base.json").write_text('{"id": "multi_turn_base_0"}\n')
    monkeypatch.setattr(bfcl_package, "files", lambda name: tmp_path)
    with pytest.raises(BfclFormatError, match="200 entries"):
        load(TasksConfig(source="bfcl"))


def test_an_unknown_source_lists_the_known() -> None:
    with pytest.raises(UnknownNameError, match="bfcl"):
        load(TasksConfig(source="web"))
