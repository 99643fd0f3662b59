"""JSON as the standard has it: no NaN, no repeated keys, and a reason that one can act on."""

from __future__ import annotations

import json
import re
from typing import Any

_SPACE = re.compile(r"\s*")


class JsonError(ValueError):
    """Text that is not the JSON which was expected; `str(error)` says why."""


def read(text: str, start: int) -> tuple[Any, int]:
    """The value that begins at `start`, after white space, and where it ends.

    Raises:
        JsonError: it is not JSON, or it is ambiguous (a key that occurs twice).
    """
    begin = space_end(text, start)
    try:
        return _DECODER.raw_decode(text, begin)
    except RecursionError:
        raise JsonError("the JSON is nested too deeply") from None
    except JsonError:
        raise
    except json.JSONDecodeError as error:
        raise JsonError(f"invalid JSON: {error.msg} at character {error.pos - begin + 1}") from None
    except ValueError:  # Python reads no integer of more than 4,300 digits
        raise JsonError("an integer has too many digits") from None


def space_end(text: str, start: int) -> int:
    """Where the white space at `start` ends."""
    match = _SPACE.match(text, start)
    assert match is not None
    return match.end()


def type_name(value: Any) -> str:
    """JSON's name of a value's type, with its article."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def short(value: object) -> str:
    """A value in at most 80 characters, for messages."""
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}…"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for name, value in pairs:
        if name in data:
            raise JsonError(f"the key {short(name)} occurs twice in one object")
        data[name] = value
    return data


def _no_constant(name: str) -> Any:
    raise JsonError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
