"""Seeded trajectories: a ground truth and one or more changes that a policy might make to it."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from benchmarks.official import as_python
from rods.simulation.functions import documentation
from rods.tasks.bfcl import parse_call
from rods.tasks.bfcl_package import CLASSES, simulator
from rods.tasks.model import Call

Turns = list[list[str]]
"""Per turn its calls as Python text."""

OFFICIAL_STEPS = 20
_READING = ("get_", "display", "view_", "list_", "check_", "find", "search_", "estimate_", "retrieve_")
_READING_NAMES = frozenset(
    {"ls", "pwd", "cat", "grep", "wc", "du", "diff", "tail", "sort", "gallon_to_liter"}
)


@dataclass(frozen=True)
class Material:
    """What a change may draw from.

    Attributes:
        classes: of the task.
        others: calls of the same classes from other ground truths, as Python text; read-only ones first.
        reading: how many of `others` only read.
    """

    classes: tuple[str, ...]
    others: Sequence[str]
    reading: int


def material(classes: Sequence[str], ground_truths: Mapping[str, Sequence[str]]) -> Material:
    """The calls of `classes` among `ground_truths` (function name → texts)."""
    names = [name for name in documentation(classes) if name in ground_truths]
    read = [text for name in names if reads(name) for text in ground_truths[name]]
    write = [text for name in names if not reads(name) for text in ground_truths[name]]
    return Material(tuple(classes), read + write, len(read))


def reads(name: str) -> bool:
    """Whether a function leaves the public state as it is, judged by its name."""
    return name in _READING_NAMES or name.startswith(_READING)


@lru_cache(maxsize=20_000)
def to_call(text: str, classes: tuple[str, ...]) -> Call:
    """The call of a Python text, all arguments by name."""
    return parse_call(text, classes)


def apply(kind: str, turns: Turns, rng: random.Random, stuff: Material) -> None:
    """Change `turns` in place in the way called `kind`; a change that does not fit leaves them as they are."""
    filled = [turn for turn in turns if turn]
    if filled:
        KINDS[kind](turns, rng.choice(filled), rng, stuff)


def _drop(turns: Turns, turn: list[str], rng: random.Random, stuff: Material) -> None:
    del turn[rng.randrange(len(turn))]


def _duplicate(turns: Turns, turn: list[str], rng: random.Random, stuff: Material) -> None:
    turn.insert(rng.randint(0, len(turn)), rng.choice(turn))


def _reorder(turns: Turns, turn: list[str], rng: random.Random, stuff: Material) -> None:
    rng.shuffle(max((other for other in turns), key=len) if len(turn) < 2 else turn)


def _move(turns: Turns, turn: list[str], rng: random.Random, stuff: Material) -> None:
    here = next(index for index, other in enumerate(turns) if other is turn)
    neighbours = [index for index in (here - 1, here + 1) if 0 <= index < len(turns)]
    if neighbours:
        target = turns[rng.choice(neighbours)]
        target.insert(rng.randint(0, len(target)), turn.pop(rng.randrange(len(turn))))


def _extra_read(turns: Turns, turn: list[str], rng: random.Random, stuff: Material) -> None:
    if stuff.reading:
        rng.choice(turns).append(stuff.others[rng.randrange(stuff.reading)])


def _extra_change(turns: Turns, turn: list[str], rng: random.Random, stuff: Material) -> None:
    if stuff.reading < len(stuff.others):
        text = stuff.others[rng.randrange(stuff.reading, len(stuff.others))]
        target = rng.choice(turns)
        target.insert(rng.randint(0, len(target)), text)


def _early_answer(turns: Turns, turn: list[str], rng: random.Random, stuff: Material) -> None:
    del turn[rng.randrange(len(turn)) :]


def _step_limit(turns: Turns, turn: list[str], rng: random.Random, stuff: Material) -> None:
    position = rng.randint(0, len(turn))
    turn[position:position] = [rng.choice(turn)] * (OFFICIAL_STEPS + rng.randint(-2, 3))


def _value(turns: Turns, turn: list[str], rng: random.Random, stuff: Material) -> None:
    _argument(turn, rng, stuff, _other_value)


def _type(turns: Turns, turn: list[str], rng: random.Random, stuff: Material) -> None:
    _argument(turn, rng, stuff, _other_type)


def _omit(turns: Turns, turn: list[str], rng: random.Random, stuff: Material) -> None:
    index = rng.randrange(len(turn))
    call = to_call(turn[index], stuff.classes)
    if call.arguments:
        gone = rng.choice(list(call.arguments))
        kept = {name: value for name, value in call.arguments.items() if name != gone}
        turn[index] = as_python(Call(call.name, kept))


def _positional(turns: Turns, turn: list[str], rng: random.Random, stuff: Material) -> None:
    index = rng.randrange(len(turn))
    call = to_call(turn[index], stuff.classes)
    first = []
    for name in _signature(call.name)[: rng.randint(1, 9)]:
        if name not in call.arguments:
            break
        first.append(name)
    named = [f"{name}={value!r}" for name, value in call.arguments.items() if name not in first]
    turn[index] = f"{call.name}({', '.join([repr(call.arguments[name]) for name in first] + named)})"


def _keyword(turns: Turns, turn: list[str], rng: random.Random, stuff: Material) -> None:
    index = rng.randrange(len(turn))
    call = to_call(turn[index], stuff.classes)
    names = list(call.arguments)
    rng.shuffle(names)
    turn[index] = as_python(Call(call.name, {name: call.arguments[name] for name in names}))


def _none(turns: Turns, turn: list[str], rng: random.Random, stuff: Material) -> None:
    """The ground truth itself."""


KINDS: Mapping[str, Callable[[Turns, list[str], random.Random, Material], None]] = {
    "none": _none,
    "drop": _drop,
    "duplicate": _duplicate,
    "reorder": _reorder,
    "argument_value": _value,
    "argument_type": _type,
    "argument_omitted": _omit,
    "extra_read": _extra_read,
    "extra_change": _extra_change,
    "move": _move,
    "early_answer": _early_answer,
    "step_limit": _step_limit,
    "positional": _positional,
    "keyword": _keyword,
}


def _argument(
    turn: list[str], rng: random.Random, stuff: Material, other: Callable[[Any, random.Random], Any]
) -> None:
    index = rng.randrange(len(turn))
    call = to_call(turn[index], stuff.classes)
    if call.arguments:
        name = rng.choice(list(call.arguments))
        arguments = {**call.arguments, name: other(call.arguments[name], rng)}
        turn[index] = as_python(Call(call.name, arguments))


def _other_value(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return rng.choice((value + 1, value - 1, -value, 0, value * 2, value + 0.5))
    if isinstance(value, list):
        return rng.choice((value[1:], value + value[:1], value[::-1], []))
    if isinstance(value, dict):
        return rng.choice(({}, dict(list(value.items())[1:])))
    if isinstance(value, str):
        return rng.choice((value + "x", value.upper(), value.lower(), value[::-1], "", ".", "../" + value))
    return "x"


def _other_type(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bool):
        return rng.choice((int(value), str(value), None))
    if isinstance(value, int | float):
        return rng.choice((str(value), float(value), int(value), [value], None, bool(value)))
    if isinstance(value, str):
        number = int(value) if value.isdecimal() else len(value)
        return rng.choice((number, [value], None, True, {"value": value}))
    if isinstance(value, list):
        return rng.choice((str(value), {}, None, value[0] if value else 0))  # JSON has no tuples
    return rng.choice((str(value), None, []))


@cache
def _signature(name: str) -> tuple[str, ...]:
    class_name = documentation(CLASSES)[name].class_name
    return tuple(inspect.signature(getattr(simulator(class_name), name)).parameters)[1:]
