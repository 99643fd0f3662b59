"""From the text of an assistant message to calls that may run: strict JSON, then the function's schema.

Model text is data. Nothing here evaluates it, repairs it or fills in what is missing: what cannot be read
is a `ParseFailure`, what contradicts the documentation is a `CallError`, and both say what would have been
right, since the policy reads them as a tool result and can learn from them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from rods.errors import RodsError
from rods.simulation import strict_json
from rods.simulation.functions import FunctionDoc
from rods.simulation.schemas import Predicate, compile_arguments
from rods.simulation.strict_json import JsonError, short, space_end, type_name
from rods.tasks.model import Call

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_THOUGHT = re.compile(r"\s*<think>.*?(?:</think>|\Z)", re.DOTALL)
MAX_MESSAGE_CHARS = 200_000
MAX_CALLS = 64  # in one message; the longest turn of BFCL has 34
MAX_STRING_CHARS = 100_000
MAX_INTEGER_BITS = 2_048  # twice the range of a double
MAX_DEPTH = 16
MAX_ITEMS = 10_000  # of one list or object


class CallError(RodsError):
    """A call that contradicts the documentation of its function, or exceeds the simulation's limits."""


class WrongTypeError(CallError):
    """A call whose arguments have the right names and a wrong type."""


@dataclass(frozen=True)
class ParseFailure:
    """A tool call that could not be read, and why."""

    reason: str


@dataclass(frozen=True)
class ParsedMessage:
    """An assistant message.

    Attributes:
        calls: its tool calls in order, each a call or the reason why it is none.
        is_answer: there is no tool call at all, so the message answers the user.
    """

    calls: tuple[Call | ParseFailure, ...]
    is_answer: bool


def parse_message(text: str) -> ParsedMessage:
    """Read the Hermes tool calls of a message, any number of them.

    One call is `<tool_call>`, a JSON object `{"name": …, "arguments": {…}}`, `</tool_call>`. Text
    around the calls is ignored, as is a leading `<think>…</think>`. Never raises.
    """
    spoken = _THOUGHT.sub("", text, count=1) if text.lstrip().startswith("<think>") else text
    if _OPEN not in spoken:
        return ParsedMessage((), True)
    if len(spoken) > MAX_MESSAGE_CHARS:
        return ParsedMessage(
            (ParseFailure(f"the message is longer than {MAX_MESSAGE_CHARS} characters"),), False
        )
    calls: list[Call | ParseFailure] = []
    start = spoken.find(_OPEN)
    while start >= 0:
        if len(calls) == MAX_CALLS:
            calls.append(ParseFailure(f"a message holds at most {MAX_CALLS} calls; the others were not run"))
            break
        call, end = _read_call(spoken, start + len(_OPEN))
        calls.append(call)
        start = spoken.find(_OPEN, end)
    return ParsedMessage(tuple(calls), False)


def validate(call: Call, docs: Mapping[str, FunctionDoc]) -> None:
    """Check a call against the functions that are available.

    An int is a number; a bool is neither; null is accepted where the documented default is None.

    Raises:
        CallError: unknown function, missing or unknown arguments, values beyond the limits.
        WrongTypeError: a wrongly typed argument.
    """
    doc = docs.get(call.name)
    if doc is None:
        raise CallError(
            f"there is no function {short(call.name)}; the available functions are: {', '.join(docs)}"
        )
    quick, checker = _checkers(doc)
    if quick(call.arguments):
        return
    check_value(call.arguments)
    if checker.is_valid(call.arguments):
        return
    named = _misnamed(call.arguments, doc)
    kind = CallError if named else WrongTypeError
    raise kind(f"{call.name}: {named or _mistyped(call.arguments, checker)}. {_usage(doc)}")


def check_value(value: Any, depth: int = 0) -> None:
    """Refuse what JSON cannot carry or a simulator should not meet.

    Raises:
        CallError: non-finite numbers, lone surrogates, very long strings, integers or lists, deep nesting.
    """
    if isinstance(value, str):
        _check_string(value)
    elif isinstance(value, (Mapping, list, tuple)):
        if depth >= MAX_DEPTH:
            raise CallError(f"the arguments are nested more than {MAX_DEPTH} levels deep")
        if len(value) > MAX_ITEMS:
            raise CallError(f"a list of {len(value)} items is too long; at most {MAX_ITEMS}")
        if isinstance(value, Mapping):
            for key in value:
                _check_string(key)
            value = value.values()
        for item in value:
            check_value(item, depth + 1)
    elif isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise CallError("numbers must be finite")
    elif isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        raise CallError(f"an integer of {value.bit_length()} bits is too large; at most {MAX_INTEGER_BITS}")


def _check_string(text: str) -> None:
    if len(text) > MAX_STRING_CHARS:
        raise CallError(f"a string of {len(text)} characters is too long; at most {MAX_STRING_CHARS}")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise CallError("a string holds half of a surrogate pair, which is not a character")


def _read_call(text: str, start: int) -> tuple[Call | ParseFailure, int]:
    """The call whose tag opens before `start`, and where reading goes on.

    The JSON reader finds the object's end, so that a closing tag inside a string does not cut the call.
    """
    try:
        data, end = strict_json.read(text, start)
    except JsonError as error:
        return _failure(str(error), text, start)
    after = space_end(text, end)
    if not text.startswith(_CLOSE, after):
        found = "the end of the message" if after == len(text) else short(text[after : after + 20])
        return _failure(f"expected {_CLOSE} after the JSON object, found {found}", text, start)
    return to_call(data), after + len(_CLOSE)


def _failure(reason: str, text: str, start: int) -> tuple[ParseFailure, int]:
    close = text.find(_CLOSE, start)
    return ParseFailure(reason), len(text) if close < 0 else close + len(_CLOSE)


def to_call(data: Any, values: str = "arguments") -> Call | ParseFailure:
    """The call that a JSON value describes: exactly `{"name": <string>, VALUES: <object>}`.

    Args:
        values: the key of the arguments.
    """
    if not isinstance(data, dict):
        return ParseFailure(f"expected a JSON object, found {type_name(data)}")
    expected = {"name", values}
    if set(data) != expected:
        missing, unknown = sorted(expected - set(data)), sorted(set(data) - expected)
        found = [f"missing {', '.join(missing)}"] * bool(missing)
        found += [f"unknown {short(', '.join(unknown))}"] * bool(unknown)
        return ParseFailure(f'expected exactly the keys "name" and "{values}": {"; ".join(found)}')
    if not isinstance(data["name"], str):
        return ParseFailure(f'"name" must be a string, found {type_name(data["name"])}')
    if not isinstance(data[values], dict):
        return ParseFailure(f'"{values}" must be a JSON object, found {type_name(data[values])}')
    return Call(data["name"], data[values])


def _is_integer(checker: Any, value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_Validator = extend(
    Draft202012Validator, type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer)
)
_CHECKERS: WeakKeyDictionary[FunctionDoc, tuple[Predicate, Any]] = WeakKeyDictionary()


def _checkers(doc: FunctionDoc) -> tuple[Predicate, Any]:
    """The quick test and the validator of a function's arguments; unknown arguments are refused."""
    checkers = _CHECKERS.get(doc)
    if checkers is None:
        properties = {
            name: _accepted(doc.class_name, name, schema)
            for name, schema in doc.parameters["properties"].items()
        }
        schema = {**doc.parameters, "properties": properties, "additionalProperties": False}
        checkers = (compile_arguments(schema), _Validator(schema))
        _CHECKERS[doc] = checkers
    return checkers


def _accepted(class_name: str, name: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of an argument with what the simulators take beyond its documentation.

    That is null where None is the default, and text for ticket ids: BFCL documents integers, but has
    scenarios with ids like "ticket_001" (entry 173 of each type) that its ground truth calls.
    """
    if not isinstance(schema.get("type"), str):  # MCP servers write unions; those are complete
        return schema
    types = [schema["type"]]
    if "default" in schema and schema["default"] is None:
        types.append("null")
    if (class_name, name) == ("TicketAPI", "ticket_id"):
        types.append("string")
    return {**schema, "type": types}


def _misnamed(arguments: Mapping[str, Any], doc: FunctionDoc) -> str:
    missing = [name for name in doc.parameters.get("required", ()) if name not in arguments]
    if missing:
        return f"missing arguments: {', '.join(missing)}"
    unknown = [name for name in arguments if name not in doc.parameters["properties"]]
    return f"unknown arguments: {short(', '.join(unknown))}" if unknown else ""


def _mistyped(arguments: Mapping[str, Any], checker: Any) -> str:
    error = next(checker.iter_errors(arguments))
    where = ".".join(str(part) for part in error.absolute_path)
    if error.validator == "type":
        expected = (
            error.validator_value if isinstance(error.validator_value, str) else error.validator_value[0]
        )
        return f"{where} must be of type {expected}, found {short(error.instance)}"
    return f"{where}: {error.message[:200]}"


def _usage(doc: FunctionDoc) -> str:
    required = set(doc.parameters.get("required", ()))
    parts = [
        f"{name} ({_type_name(schema)}{'' if name in required else ', optional'})"
        for name, schema in doc.parameters["properties"].items()
    ]
    return f"Arguments of {doc.name}: {', '.join(parts) or 'none'}"


def _type_name(schema: Mapping[str, Any]) -> str:
    """The type of an argument in words: "string", "integer or null"; "any" where the schema names none."""
    kinds = schema.get("type")
    if kinds is None:
        kinds = [_type_name(option) for option in schema.get("anyOf", ())]
    return kinds if isinstance(kinds, str) else " or ".join(kinds) or "any"
