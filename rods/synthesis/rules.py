"""Checks that need no judge: what a message may say, how large arguments may be, what may be repeated.

Each rule is a plain function from what it reads to the list of its violations, in words for a log or a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rods.simulation.functions import FunctionDoc
from rods.tasks.model import Call, Task, TaskType
from rods.tasks.profile import leaves


def named_functions(
    queries: Sequence[str], calls: Iterable[Call], docs: Mapping[str, FunctionDoc]
) -> list[str]:
    """Messages that name functions or parameters.

    A name that is no English word (`file_name`, `lockDoors`) must not occur at all; one that is (`sort`,
    `find`)
    only not as code: followed by a bracket or in backticks. The calls' own values are not looked into,
    since a user may well have a file called user_id.
    """
    said = sorted(
        {str(leaf) for call in calls for leaf in leaves(dict(call.arguments))}, key=len, reverse=True
    )
    names = sorted(
        {name for doc in docs.values() for name in (doc.name, *doc.parameters.get("properties", {}))}
    )
    found = []
    for turn, query in enumerate(queries):
        text = query
        for value in filter(None, said):
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", " ", text)
        found += [f"turn {turn + 1} names {name!r}" for name in names if _names(text, name)]
    return found


def oversized(calls: Iterable[Call], max_string: int, max_list: int) -> list[str]:
    """Arguments with a string longer than `max_string` characters or a list longer than `max_list` items."""
    return [
        f"{call.name}: {problem}"
        for call in calls
        for problem in _oversized(dict(call.arguments), max_string, max_list)
    ]


def unavailable(task: Task) -> list[str]:
    """Calls of functions that are withheld at their turn, and withheld functions that no turn restores."""
    hidden = set(task.withheld)
    found = []
    for index, turn in enumerate(task.turns):
        hidden -= set(turn.restored)
        found += [
            f"turn {index + 1} calls the withheld {call.name}" for call in turn.calls if call.name in hidden
        ]
    return [*found, *(f"{name} is withheld for good" for name in sorted(hidden))]


def small_observations(task: Task, results: Iterable[str], least: int) -> list[str]:
    """A long_context task whose largest result has fewer than `least` characters; other types may be short."""
    largest = max(map(len, results), default=0)
    if task.type is not TaskType.LONG_CONTEXT or largest >= least:
        return []
    return [f"the largest result has {largest} characters, a long_context task needs {least}"]


def _names(text: str, name: str) -> bool:
    word = re.escape(name)
    if "_" in name or re.search(r"[a-z][A-Z]", name):
        return re.search(rf"(?<!\w){word}(?!\w)", text) is not None
    return re.search(rf"`{word}`|(?<!\w){word}\(", text) is not None


def _oversized(value: Any, max_string: int, max_list: int) -> Iterator[str]:
    if isinstance(value, str) and len(value) > max_string:
        yield f"a string of {len(value)} characters, allowed {max_string}"
    elif isinstance(value, list | tuple):
        if len(value) > max_list:
            yield f"a list of {len(value)} items, allowed {max_list}"
        for item in value:
            yield from _oversized(item, max_string, max_list)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _oversized(item, max_string, max_list)
