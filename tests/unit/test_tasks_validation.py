"""Validation tasks: apart from all others where tasks are generated, else a fixed share of the training tasks."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rods import tasks
from rods.config import TasksConfig
from rods.tasks.model import Task
from rods.tasks.taskset import TaskCountError, validation_of


def scripted(validation: int | None, **more: Any) -> tasks.TaskSet:
    counts = {"train_count": 30, "heldout_count": 30, **more}
    return tasks.load(TasksConfig(source="scripted", validation_count=validation, **counts))


def calls(task: Task) -> str:
    return json.dumps([[call.to_json() for call in turn.calls] for turn in task.turns], sort_keys=True)


def test_generated_ones_repeat_no_other_task_and_change_none() -> None:
    found, without = scripted(30), scripted(0)
    assert (len(found.validation), without.validation) == (30, ())
    assert (found.train, found.heldout) == (without.train, without.heldout)
    assert not {calls(task) for task in found.validation} & {
        calls(task) for task in (*found.train, *found.heldout)
    }
    assert len({task.id for task in found.known}) == len(found.known) == 90
    assert found.fingerprint != without.fingerprint


def test_the_training_tasks_of_a_file_are_validated_on_by_share(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text("".join(json.dumps(task.to_json()) + "\n" for task in scripted(0).train))
    every, some, none = (
        tasks.load(TasksConfig(source="file", path=str(file), validation_count=count))
        for count in (None, 10, 0)
    )
    assert every.validation == every.train
    assert none.validation == ()
    assert {task.id for task in some.validation} < {task.id for task in some.train}
    assert 9 <= len(some.validation) <= 12  # rounded by type
    assert some.known == some.train
    with pytest.raises(TaskCountError, match=r"tasks\.validation_count = 31"):
        tasks.load(TasksConfig(source="file", path=str(file), validation_count=31))


def test_types_keep_their_shares_and_the_sample_is_fixed() -> None:
    train = tasks.load(TasksConfig(source="bfcl")).train
    chosen = validation_of(train, 40)
    assert set(Counter(task.type for task in chosen).values()) == {10}
    assert chosen == validation_of(train, 40)
    assert validation_of((), None) == ()
