"""References that resolve to exactly one thing: "cancel that order" while two orders are open means neither.

Where the user leaves a value to what was found before, the value must be the only one of its kind where it was
found last: in the latest result that holds the kind, else in the world. Several are no fault when the message
tells them apart, by another value of the same record ("the one for AAPL") or by place, time or rank ("the latest").

A code in capitals needs no such check, since the user may have said what it stands for (MSFT, JFK); nor does a file
name: the simulator resolves it in the current directory, where it is unique.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rods.simulation.exposure import Exposure
from rods.tasks.model import Task
from rods.tasks.profile import accidental, leaves, result_value, same_value, visible

# Ours: words that choose one of several, or all of them.
_CHOICE = re.compile(
    r"\b(first|second|third|last|latest|newest|oldest|previous|earlier|former|latter|recent(ly)?|just|initial|original"
    r"|next|other|same|only|top|bottom|lowest|highest|largest|smallest|biggest|cheapest|closest|nearest|best|least|most"
    r"|all|any|both|each|every|found before)\b",
    re.IGNORECASE,
)


_CODE = re.compile(r"[A-Z]{2,5}")


@dataclass(frozen=True)
class Place:
    """Where a value was found.

    Attributes:
        rivals: other values of its kind there.
        record: the values beside it, which tell it from its rivals.
    """

    rivals: tuple[Any, ...]
    record: tuple[Any, ...]


def ambiguous(task: Task, exposure: Exposure) -> list[str]:
    """Arguments whose value is left unsaid and could be another one, in words."""
    found: list[str] = []
    said = ""
    results: list[Any] = []
    for index, turn in enumerate(task.turns):
        said += f"\n{turn.query}"
        used = list(leaves([dict(call.arguments) for call in turn.calls]))
        for call, text in zip(turn.calls, exposure.results[index], strict=True):
            sources = [*reversed(results), result_value(exposure.states[index])]
            for value in filter(lambda value: _unsaid(value, said), leaves(dict(call.arguments))):
                rivals = [rival for rival in _rivals(value, sources, turn.query) if rival not in used]
                if rivals:
                    found.append(f"turn {index + 1}: {value!r} of {call.name} could as well be {rivals[0]!r}")
            results.append(result_value(text))
    return found


def _unsaid(value: Any, said: str) -> bool:
    code = isinstance(value, str) and _CODE.fullmatch(value)
    return not (code or accidental(value) or visible(value, said))


def _rivals(value: Any, sources: Sequence[Any], query: str) -> tuple[Any, ...]:
    """What else the user could mean, where the value was found last; nothing if the message tells them apart."""
    for source in sources:
        found = sorted(places(value, source), key=lambda place: len(place.rivals))
        if found:
            return () if _told_apart(found[0], query) else found[0].rivals
    return ()


def places(value: Any, source: Any) -> Iterator[Place]:
    """Every place of `source` (a JSON value) that holds `value` as the field of a record or item of a list."""
    yield from _fields(value, source, source)


def _fields(value: Any, node: Any, source: Any) -> Iterator[Place]:
    if isinstance(node, Mapping):
        for key, item in node.items():
            if _is(value, item):
                yield Place(_others(value, key, source), tuple(leaves({**node, key: None})))
            yield from _fields(value, item, source)
    elif isinstance(node, list | tuple):
        if any(_is(value, item) for item in node):
            yield Place(
                tuple(dict.fromkeys(item for item in leaves(node) if not same_value(value, item))), ()
            )
        for item in node:
            yield from _fields(value, item, source)


def _others(value: Any, key: Any, source: Any) -> tuple[Any, ...]:
    """Other values under the same key anywhere in the source."""
    return tuple(dict.fromkeys(item for item in _under(key, source) if not same_value(value, item)))


def _under(key: Any, node: Any) -> Iterator[Any]:
    if isinstance(node, Mapping):
        for name, item in node.items():
            if name == key and not isinstance(item, Mapping | list | tuple) and item is not None:
                yield item
            yield from _under(key, item)
    elif isinstance(node, list | tuple):
        for item in node:
            yield from _under(key, item)


def _told_apart(place: Place, query: str) -> bool:
    named = any(visible(item, query) for item in place.record if not accidental(item))
    return named or _CHOICE.search(query) is not None


def _is(value: Any, item: Any) -> bool:
    return not isinstance(item, Mapping | list | tuple) and item is not None and same_value(value, item)
