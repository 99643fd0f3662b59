"""A quick yes for ordinary calls: JSON schemas compiled to plain predicates.

A general schema validator walks the schema anew for every call and was two fifths of the time of a check. The
predicates here answer the common case only. Their yes is final; their no means nothing, and the validator,
which also explains, is asked. So they accept less than the schemas do, never more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import isfinite
from typing import Any

Predicate = Callable[[Any], bool]

_PLAIN_CHARS = 10_000
_PLAIN_ITEMS = 1_000
_PLAIN_INTEGER = 1 << 64


def compile_arguments(parameters: Mapping[str, Any]) -> Predicate:
    """A predicate that is true only for arguments objects which `parameters` accepts.

    Args:
        parameters: JSON schema of an object with `properties` and `required`; unknown arguments are never
            accepted. `type` is a name or a list of names.
    """
    fields = {name: _compile(schema) for name, schema in parameters["properties"].items()}
    required = frozenset(parameters.get("required", ()))

    def accepts(arguments: Any) -> bool:
        if type(arguments) is not dict or not required <= arguments.keys():
            return False
        for name, value in arguments.items():
            field = fields.get(name)
            if field is None or not field(value):
                return False
        return True

    return accepts


def _compile(schema: Mapping[str, Any]) -> Predicate:
    if "type" not in schema or not set(schema) <= {"type", "title", "description", "default", "items"}:
        return _never
    types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    tests = [_array(schema) if name == "array" else _TESTS.get(name, _never) for name in types]
    return tests[0] if len(tests) == 1 else _any_of(tests)


def _any_of(tests: Collection[Predicate]) -> Predicate:
    return lambda value: any(test(value) for test in tests)


def _array(schema: Mapping[str, Any]) -> Predicate:
    item = _compile(schema["items"]) if "items" in schema else _any_of((_string, _number))
    return lambda value: type(value) is list and len(value) <= _PLAIN_ITEMS and all(map(item, value))


def _never(value: Any) -> bool:
    return False


def _string(value: Any) -> bool:
    return type(value) is str and len(value) <= _PLAIN_CHARS and value.isascii()


def _integer(value: Any) -> bool:
    return type(value) is int and -_PLAIN_INTEGER < value < _PLAIN_INTEGER


def _number(value: Any) -> bool:
    return _integer(value) or (type(value) is float and isfinite(value))


def _boolean(value: Any) -> bool:
    return type(value) is bool


def _null(value: Any) -> bool:
    return value is None


_TESTS: dict[str, Predicate] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "null": _null,
}
