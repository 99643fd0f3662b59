"""The 800 multi-turn entries of BFCL V3 as tasks, read from the installed bfcl-eval package.

Ground truth is published as Python call expressions; they are read as syntax, never evaluated, and positional
arguments get the names of the simulator's signature.
"""

from __future__ import annotations

import ast
import inspect
import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from rods.config import TasksConfig
from rods.errors import RodsError
from rods.tasks.bfcl_package import read_documentation, read_records, simulator
from rods.tasks.model import Call, Task, TaskType, Turn
from rods.tasks.taskset import TaskSet, first, make, validation_of

RESTORED_QUERY = "I have updated some more functions you can choose from. What about now?"
"""What the user says, by BFCL's runner, at the turn that brings withheld functions back."""

TRAIN, VALIDATION = 100, 25  # entries per type; the remaining 75 are the test part


class BfclFormatError(RodsError):
    """An entry of the package that does not have the expected form."""


def load(config: TasksConfig) -> TaskSet:
    """400 training and 400 held-out tasks, the split of Lu et al.; any prefix holds the types in equal parts.

    The validation tasks are some of the training ones.

    Raises:
        BfclMissingError: bfcl-eval is not installed.
        BfclFormatError: another version of it, with other data.
        TaskCountError: `train_count` or `heldout_count` is above 400, `validation_count` above the training tasks.
    """
    order = _split_order()
    tasks = {kind: _entries(kind) for kind in TaskType}
    chosen = [tasks[kind][index] for index in order for kind in TaskType]
    boundary = TRAIN * len(TaskType)
    train = first(chosen[:boundary], config.train_count, "tasks.train_count")
    heldout = first(chosen[boundary:], config.heldout_count, "tasks.heldout_count")
    return make("bfcl", train, heldout, validation_of(train, config.validation_count))


def parse_call(text: str, classes: Sequence[str]) -> Call:
    """One ground-truth call, such as `sort('final_report.pdf')`, with all arguments by name.

    Raises:
        BfclFormatError: anything but a call of a documented function of `classes` with literal arguments.
    """
    try:
        node = ast.parse(text, mode="eval").body
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            raise BfclFormatError(f"ground truth {text!r}: expected a plain function call")
        names = _parameters(node.func.id, tuple(classes))[: len(node.args)]
        if len(names) < len(node.args) or any(keyword.arg is None for keyword in node.keywords):
            raise BfclFormatError(
                f"ground truth {text!r}: arguments do not fit the signature of {node.func.id}"
            )
        pairs = [(name, ast.literal_eval(value)) for name, value in zip(names, node.args, strict=True)]
        pairs += [(str(keyword.arg), ast.literal_eval(keyword.value)) for keyword in node.keywords]
    except (SyntaxError, ValueError) as error:
        raise BfclFormatError(
            f"ground truth {text!r}: expected a call with literal arguments: {error}"
        ) from error
    if len(dict(pairs)) < len(pairs):
        raise BfclFormatError(f"ground truth {text!r}: an argument is given twice")
    return Call(node.func.id, dict(pairs))


def _split_order() -> list[int]:
    """Indices within a type: training, validation, test. The same in every type, so no sibling leaks."""
    order = list(range(200))
    random.Random(42).shuffle(order)
    return order


def _entries(kind: TaskType) -> list[Task]:
    file = f"BFCL_v4_multi_turn_{kind.value}.json"
    questions, answers = read_records(file), read_records(f"possible_answer/{file}")
    if [entry["id"] for entry in questions] != [f"multi_turn_{kind.value}_{index}" for index in range(200)]:
        raise BfclFormatError(f"{file}: expected 200 entries, multi_turn_{kind.value}_0 to _199, in order")
    truths = {answer["id"]: answer["ground_truth"] for answer in answers}
    return [_task(entry, truths.get(entry["id"], []), kind) for entry in questions]


def _task(entry: Mapping[str, Any], truth: Sequence[Sequence[str]], kind: TaskType) -> Task:
    if len(entry["question"]) != len(truth):
        raise BfclFormatError(
            f"{entry['id']}: {len(entry['question'])} user turns, ground truth for {len(truth)}"
        )
    classes = tuple(entry["involved_classes"])
    missed = _missed(entry, truth)
    turns = tuple(
        Turn(
            query=_query(entry["id"], messages, restores=index in missed),
            calls=tuple(parse_call(text, classes) for text in truth[index]),
            restored=missed.get(index, ()),
        )
        for index, messages in enumerate(entry["question"])
    )
    withheld = tuple(name for names in missed.values() for name in names)
    return Task(entry["id"], kind, classes, entry["initial_config"], turns, withheld, kind=kind.value)


def _missed(entry: Mapping[str, Any], truth: Sequence[Sequence[str]]) -> dict[int, tuple[str, ...]]:
    """Turn → functions that it brings back.

    A function that the ground truth needs before it comes back cannot be withheld (miss_func_49 does this
    with `tail`; BFCL only hides its documentation, here a withheld function does not exist).
    """
    missed = {}
    for turn, names in entry.get("missed_function", {}).items():
        needed = {text.partition("(")[0] for calls in truth[: int(turn)] for text in calls}
        missed[int(turn)] = tuple(name for name in names if name not in needed)
    return missed


def _query(entry_id: str, messages: Sequence[Mapping[str, str]], *, restores: bool) -> str:
    if not messages and restores:
        return RESTORED_QUERY
    if len(messages) != 1 or messages[0]["role"] != "user":
        raise BfclFormatError(f"{entry_id}: expected one user message a turn, found {messages!r}")
    return messages[0]["content"]


@cache
def _parameters(name: str, classes: tuple[str, ...]) -> list[str]:
    """Parameter names of a documented function, in the order of the simulator's signature."""
    for class_name in classes:
        if name in _functions(class_name):
            return list(inspect.signature(getattr(simulator(class_name), name)).parameters)[1:]
    raise BfclFormatError(f"ground truth calls {name!r}, which {', '.join(classes)} do not document")


@cache
def _functions(class_name: str) -> frozenset[str]:
    return frozenset(entry["name"] for entry in read_documentation(class_name))
