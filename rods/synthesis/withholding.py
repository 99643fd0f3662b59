"""Whether a withheld value can be had without asking for it: then the turn that withholds it teaches the wrong thing.

miss_param asks without a value, and the right answer is to ask back. A value that was said before, in figures or
in words, that a result has shown, that is the documented default or only option, or that is the only thing of its
kind in the world, is a value that a good assistant would use instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rods.tasks.audit import numbers
from rods.tasks.profile import leaves, result_value, same_value, visible


def told(value: Any, messages: Iterable[str]) -> bool:
    """Whether a message says the value, a number also in words."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return any(visible(value, text) or (number and float(value) in numbers(text)) for text in messages)


def shown(value: Any, results: Iterable[str]) -> bool:
    """Whether a result text holds the value, as a value of its own or within a longer text."""
    return any(
        same_value(value, leaf) or (isinstance(leaf, str) and visible(value, leaf))
        for text in results
        for leaf in leaves([result_value(text)])
    )


def documented(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether the parameter's schema gives the value as its default or its only option."""
    return schema.get("default") == value or list(schema.get("enum", ())) == [value]


def only_one(value: Any, parameter: str, state: Any) -> bool:
    """Whether the world holds one thing that the parameter could mean, and it is the value.

    That is a field of the parameter's name, or an entry that has no sibling of its kind (the only file of its
    folder, the only contact).
    """
    fields = list(dict.fromkeys(_fields(parameter, state)))
    if len(fields) == 1 and same_value(value, fields[0]):
        return True
    siblings = list(_siblings(value, state))
    return bool(siblings) and all(count == 1 for count in siblings)


def _fields(parameter: str, node: Any) -> Iterator[Any]:
    """Scalars under a key of the parameter's name."""
    if isinstance(node, Mapping):
        for key, item in node.items():
            if str(key).casefold() == parameter.casefold() and not isinstance(item, Mapping | list | tuple):
                yield item
            yield from _fields(parameter, item)
    elif isinstance(node, list | tuple):
        for item in node:
            yield from _fields(parameter, item)


def _siblings(value: Any, node: Any) -> Iterator[int]:
    """For every object with the value as a key: how many of its entries are of the same kind, itself included.

    Entries with a `type` are of a kind when it is equal (files and folders), others when both are objects or
    neither is.
    """
    if isinstance(node, Mapping):
        if value in node:
            yield sum(_kind(item) == _kind(node[value]) for item in node.values())
        for item in node.values():
            yield from _siblings(value, item)
    elif isinstance(node, list | tuple):
        for item in node:
            yield from _siblings(value, item)


def _kind(entry: Any) -> Any:
    return entry.get("type", "object") if isinstance(entry, Mapping) else "value"
