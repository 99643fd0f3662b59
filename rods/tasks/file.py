"""Tasks from files: a static dataset that was made before the run.

A dataset's folder holds `train.jsonl` and `heldout.jsonl`, one task a line, as `rods synthesize` writes them. Every
line is read strictly: a dataset that was edited by hand into something else is refused with file and line, since
a run that trains on less than it was given would not be noticed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rods.config import TasksConfig
from rods.errors import RodsError
from rods.tasks.model import Origin, Task, TaskFormatError
from rods.tasks.taskset import TaskSet, first, make, validation_of

TRAIN, HELDOUT = "train.jsonl", "heldout.jsonl"


class TaskFileError(RodsError):
    """A task file that is missing, or does not hold one task a line."""


def load(config: TasksConfig) -> TaskSet:
    """The tasks under `config.path`: a dataset's folder, or one JSONL file, which has no held-out tasks.

    Every training task is a seed of the run, whatever it was in the run that made it.

    Raises:
        TaskFileError: a file is missing or damaged, or a task id occurs twice.
        TaskCountError: more tasks were asked for than there are.
    """
    path = Path(config.path)
    heldout: Sequence[Task] = ()
    train_file = path
    if path.is_dir():
        train_file = path / TRAIN
        heldout = read(path / HELDOUT) if (path / HELDOUT).exists() else ()
    train = [replace(task, origin=Origin.SEED, seed_id=task.id) for task in read(train_file)]
    _check_ids(path, [*train, *heldout])
    chosen = first(train, config.train_count, "tasks.train_count")
    return make(
        "file",
        chosen,
        first(heldout, config.heldout_count, "tasks.heldout_count"),
        validation_of(chosen, config.validation_count),
    )


def check_there(path: Path) -> None:
    """Whether `load` finds a file of tasks at `path`; what it holds is not looked at.

    Raises:
        TaskFileError: there is none.
    """
    if not (path.is_file() or (path / TRAIN).is_file()):
        raise _missing(path)


def read(path: Path) -> tuple[Task, ...]:
    """The tasks of a JSONL file, in order.

    Raises:
        TaskFileError: no such file, or a line that is no task; names the line.
    """
    try:
        with path.open(encoding="utf-8") as lines:
            return tuple(_task(path, number, line) for number, line in enumerate(lines, 1))
    except (FileNotFoundError, IsADirectoryError) as error:
        raise _missing(path) from error
    except UnicodeDecodeError as error:
        raise TaskFileError(f"{path}: expected UTF-8 text, found other bytes ({error})") from error


def _missing(path: Path) -> TaskFileError:
    return TaskFileError(
        f"tasks.path: expected a folder with {TRAIN}, or a JSONL file, found none at {path}; "
        "`rods synthesize --out FOLDER` makes one"
    )


def _task(path: Path, number: int, line: str) -> Task:
    try:
        task = Task.from_json(json.loads(line))
        return _checked(task)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, TaskFormatError) as error:
        raise TaskFileError(
            f"{path}, line {number}: expected one task as JSON, found {line[:80]!r} ({error}). "
            "Make the file again, or take the line out"
        ) from error


def _checked(task: Task) -> Task:
    """`task`, when the fields that `Task.from_json` takes as they come have their types."""
    texts = (
        task.id,
        task.seed_id,
        task.kind,
        *task.classes,
        *task.withheld,
        *(turn.query for turn in task.turns),
    )
    if not all(isinstance(text, str) for text in texts) or not task.id:
        raise TaskFormatError(
            "id, seed_id, kind, classes, withheld and queries are strings, and the id is not empty"
        )
    if not isinstance(task.initial_state, dict) or not isinstance(task.provenance, dict):
        raise TaskFormatError("initial_state and provenance are objects")
    if not task.classes or not any(turn.calls for turn in task.turns):
        raise TaskFormatError("a task has at least one class and one call")
    return task


def _check_ids(path: Path, tasks: Sequence[Task]) -> None:
    seen: set[str] = set()
    for task in tasks:
        if task.id in seen:
            raise TaskFileError(f"{path}: the task id {task.id!r} occurs twice; give each task its own")
        seen.add(task.id)
