"""Scripted arguments for any seed: its own, with other literals and with what the variant's world really
returned.

A value of the seed is one of five things. What an earlier result held is taken from the same place of the
variant's result. What names a file or folder of the world has the name that it has in the variant's (`scripted_world`).
What names one of several of a kind there (a stock, a contact) may be another of them. What names anything else there
(a state value, an option in the documentation, a code) must stay. Everything else is a free literal, and gets another
value; the same literal the same one throughout a variant, so that a directory created in one turn is entered by its
new name in the next.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rods.simulation.functions import FunctionDoc
from rods.tasks.profile import accidental, leaves, result_value, same_value

# How likely a free literal changes, by attempt: later attempts change less, since changes make calls fail.
_CHANGE_RATES = (1.0, 0.6, 0.35)
_TEXT_LENGTH = 13  # characters from which a string with spaces is prose, not a name of the world
_NAME = re.compile(r"(?P<stem>[A-Za-z][A-Za-z0-9_-]{2,})(?P<extension>\.[a-z]{2,4})?")
_DATE = re.compile(r"(?P<month>\d{4}-\d{2})-\d{2}")
_SHORTEST_MONTH = 28  # days
_OPENINGS = ("Update", "Reminder", "Note", "For the record", "Heads up", "Today")
_SUFFIXES = ("alt", "new", "next", "copy2", "second", "fresh", "v2", "extra", "spring", "north")
_MARKS = ("2", "Next", "Now", "Daily", "Plus")
FILE_CLASS = "GorillaFileSystem"


@dataclass(frozen=True)
class Surroundings:
    """What decides about one call's values.

    Attributes:
        seed_results: result texts of the seed's calls before this one, in order.
        results: those of the variant's calls, in the same order.
        world: values and keys of the initial state.
        names: what files and folders of the seed's world are called in the variant's, where that differs.
        peers: of each name, the others of its kind in the seed's world.
        doc: documentation of the call's function.
        rate: probability that a free literal changes.
        salt: all draws depend on it and on the literal.
    """

    seed_results: Sequence[str]
    results: Sequence[str]
    world: frozenset[str]
    names: Mapping[str, str]
    peers: Mapping[str, Sequence[str]]
    doc: FunctionDoc
    rate: float
    salt: int


def change_rate(attempt: int) -> float:
    """Probability that a free literal changes in the given 1-based attempt."""
    return _CHANGE_RATES[min(attempt, len(_CHANGE_RATES)) - 1]


def world_values(state: Mapping[str, Any]) -> frozenset[str]:
    """Every value and key of an initial state, as text."""
    return frozenset(map(str, leaves(state))) | frozenset(_keys(state))


def adapted(value: Any, around: Surroundings) -> Any:
    """A seed's argument value as the variant uses it; structure and types stay."""
    if isinstance(value, Mapping):
        return {key: adapted(item, around) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [adapted(item, around) for item in value]
    if accidental(value) or value is None:
        return value
    return _from_results(value, around) if _in_results(value, around) else _literal(value, around)


def _in_results(value: Any, around: Surroundings) -> bool:
    return any(same_value(value, leaf) for text in around.seed_results for leaf in leaves(result_value(text)))


def _from_results(value: Any, around: Surroundings) -> Any:
    """The variant's value at the place where the seed's results last held this one; the value itself if
    gone.
    """
    for before, now in zip(reversed(around.seed_results), reversed(around.results), strict=True):
        old, new = list(leaves(result_value(before))), list(leaves(result_value(now)))
        for index, leaf in enumerate(old):
            if same_value(value, leaf):
                found = new[index] if len(new) == len(old) else _named(leaf, around.names)
                return str(found) if isinstance(value, str) else found
    return value


def _literal(value: Any, around: Surroundings) -> Any:
    rng = random.Random(f"{around.salt} {value!r}")
    named = _named(value, around.names)
    if named != value:
        return named
    if rng.random() >= around.rate:
        return value
    if value in around.peers:
        return rng.choice(around.peers[value])
    if str(value) in around.world:
        return value
    if isinstance(value, str):
        return _other_text(value, around, rng)
    return _other_number(value, rng)


def _named(value: Any, names: Mapping[str, str]) -> Any:
    """A name, or a path of names, as it is in the variant's world."""
    if not isinstance(value, str):
        return value
    return "/".join(names.get(part, part) for part in value.split("/"))


def _other_text(value: str, around: Surroundings, rng: random.Random) -> str:
    if value.lower() in _documentation(around.doc):
        return value
    if date := _DATE.fullmatch(value):
        return f"{date['month']}-{rng.randint(1, _SHORTEST_MONTH):02d}"
    if value.startswith("#") and len(value) > 2:
        return value + rng.choice(_MARKS)
    if " " in value and len(value) >= _TEXT_LENGTH:
        return f"{rng.choice(_OPENINGS)}: {value}"
    return other_name(value, rng) if around.doc.class_name == FILE_CLASS else value


def other_name(value: str, rng: random.Random) -> str:
    """Another name of a file or folder, of the same kind; the name itself where it does not look like one."""
    name = _NAME.fullmatch(value)
    return f"{name['stem']}_{rng.choice(_SUFFIXES)}{name['extension'] or ''}" if name else value


def _other_number(value: float, rng: random.Random) -> float:
    """A number within a fifth of the old one, of its type and sign; small integers stay."""
    if isinstance(value, int):
        reach = abs(value) // 5
        return value + rng.choice([step for step in (-reach, -1, 1, reach) if step]) if reach else value
    decimals = len(str(value).partition(".")[2])
    return round(value * rng.choice((0.85, 0.9, 0.95, 1.05, 1.1, 1.15)), decimals if decimals < 8 else 2)


def _documentation(doc: FunctionDoc) -> str:
    """All that a function's documentation says, lower case: options and examples are named in it."""
    return f"{doc.description} {doc.parameters}".lower()


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _keys(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _keys(item)
