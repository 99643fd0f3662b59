"""Config Patch: minimal changes of a scenario by dot path, so that a call's precondition holds.

A path names keys inside one class's scenario, separated by dots; `\\.` is a literal dot
(`root.report\\.txt`) and `\\\\` a backslash; list items are named by index. A patch may change what exists,
not invent it: one that names something unknown or changes a value's type is refused, since the simulators
would ignore or choke on it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from rods.errors import RodsError
from rods.synthesis.agents import StatePatch


class PatchRefusedError(RodsError):
    """A patch that names what does not exist or changes a type."""


def split_path(path: str) -> list[str]:
    """The keys of a dot path; inverse of `join_path`.

    Raises:
        PatchRefusedError: an empty key, or a backslash before anything but a dot or a backslash.
    """
    keys, key, characters = [], "", iter(path)
    for character in characters:
        if character == ".":
            keys.append(key)
            key = ""
        elif character == "\\":
            escaped = next(characters, "")
            if escaped not in (".", "\\"):
                raise PatchRefusedError(
                    f"path {path!r}: expected \\. or \\\\, found a backslash before {escaped!r}"
                )
            key += escaped
        else:
            key += character
    keys.append(key)
    if "" in keys:
        raise PatchRefusedError(f"path {path!r}: an empty key; write keys separated by single dots")
    return keys


def join_path(keys: Sequence[str]) -> str:
    """A dot path of these keys, dots and backslashes inside them escaped."""
    return ".".join(key.replace("\\", "\\\\").replace(".", "\\.") for key in keys)


def apply(state: Mapping[str, Any], patches: Sequence[StatePatch]) -> dict[str, Any]:
    """A copy of `state` (class name → scenario) with all patches in order; an object value is merged deeply.

    Raises:
        PatchRefusedError: names the path, what was expected and what was found; `state` is unchanged.
    """
    patched = copy.deepcopy(dict(state))
    for patch in patches:
        _apply_one(patched, patch)
    return patched


def _apply_one(state: dict[str, Any], patch: StatePatch) -> None:
    where = f"{patch.class_name}:{patch.path}"
    if patch.class_name not in state:
        raise PatchRefusedError(f"patch {where}: no such class in the state; there are: {', '.join(state)}")
    *parents, last = split_path(patch.path)
    node = state[patch.class_name]
    for key in parents:
        node = node[_index(node, key, where)]
    index = _index(node, last, where)
    node[index] = _merged(node[index], patch.value, where)


def _index(node: Any, key: str, where: str) -> Any:
    """`key` as an index into `node`, which must hold it."""
    if isinstance(node, dict) and key in node:
        return key
    # JSON files have string keys only, scenarios in memory sometimes integers.
    if isinstance(node, dict) and key.isdecimal() and int(key) in node:
        return int(key)
    if isinstance(node, list) and key.isascii() and key.isdecimal() and int(key) < len(node):
        return int(key)
    known = ", ".join(map(str, node)) if isinstance(node, dict) else type(node).__name__
    raise PatchRefusedError(f"patch {where}: {key!r} does not exist; found {known}")


def _merged(old: Any, new: Any, where: str) -> Any:
    if isinstance(old, dict) and isinstance(new, Mapping):
        merged = dict(old)
        for key, value in new.items():
            merged[_index(old, key, where)] = _merged(old[_index(old, key, where)], value, f"{where}.{key}")
        return merged
    if _type(old) != _type(new):
        raise PatchRefusedError(f"patch {where}: expected a value of type {_type(old)}, found {_type(new)}")
    return copy.deepcopy(new)


def _type(value: Any) -> str:
    """JSON type; integers and other numbers are one type."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, Mapping):
        return "object"
    if isinstance(value, list | tuple):
        return "array"
    return "null" if value is None else "string"
