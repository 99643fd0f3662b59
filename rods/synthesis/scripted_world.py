"""Another world for a scripted variant: the seed's with other names for its files; and what is alike in a world.

Where a seed's user speaks of nothing but what its world holds, other literals alone would repeat the seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from rods.synthesis.scripted_literals import FILE_CLASS, other_name


def renamed(state: Mapping[str, Any], salt: int) -> dict[str, Any] | None:
    """A copy of an initial state with other names, order and all else kept; None where there are no files.

    Args:
        state: class name → scenario.
        salt: the names depend on it; equal names get equal ones, wherever they lie.
    """
    files = state.get(FILE_CLASS)
    if not files:
        return None
    return {**state, FILE_CLASS: _tree(files, salt)}


def names(before: Any, after: Any) -> dict[str, str]:
    """What the entries of one state are called in another of the same structure, where that differs."""
    return dict(_pairs(before, after))


def peers(state: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Of each name of a record (a stock's symbol) or short code (a contact's id), the others of its kind.

    A kind is a mapping of two entries or more, all of them records or all of them words. Files have kinds of their own.
    """
    found: dict[str, tuple[str, ...]] = {}
    groups = [group for name, scenario in state.items() if name != FILE_CLASS for group in _groups(scenario)]
    for group in groups:
        for name in group:
            found.setdefault(name, tuple(other for other in group if other != name))
    return found


def _groups(node: Any) -> Iterator[list[str]]:
    if not isinstance(node, Mapping):
        return
    keys, values = list(node), list(node.values())
    if len(node) > 1 and all(isinstance(value, Mapping) for value in values):
        yield [key for key in keys if isinstance(key, str)]
    elif len(set(map(str, values))) > 1 and all(isinstance(value, str) for value in values):
        yield list(dict.fromkeys(values))
    for value in values:
        yield from _groups(value)


def _tree(node: Any, salt: int) -> Any:
    if not isinstance(node, Mapping):
        return node
    called = {
        key: other_name(key, random.Random(f"{salt} {key}")) if _is_entry(value) else key
        for key, value in node.items()
    }
    if len(set(called.values())) < len(called):
        called = {key: key for key in node}  # two of a folder would be one
    return {called[key]: _tree(value, salt) for key, value in node.items()}


def _is_entry(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get("type") in ("file", "directory")


def _pairs(before: Any, after: Any) -> Iterator[tuple[str, str]]:
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        return
    for (old, inner), (new, other) in zip(before.items(), after.items(), strict=False):
        if old != new:
            yield str(old), str(new)
        yield from _pairs(inner, other)
