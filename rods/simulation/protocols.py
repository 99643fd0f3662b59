"""How a policy writes calls and answers. A protocol is what it is told, and the strict parser of what it says.

`hermes` is the native format of Qwen's models: any number of `<tool_call>` objects, and a message without one
is the answer. `envtuning` is that of EnvTuning (arXiv 2510.10197): a thought, then one list of calls or one
answer, and nothing else. Its published code writes the calls of the list as Python; here they are JSON, since
model text is never read as code. `llama` is the native format of Llama 3.1: a message is calls and nothing else, or
an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rods.simulation import strict_json
from rods.simulation.calls import (
    MAX_CALLS,
    MAX_MESSAGE_CHARS,
    ParsedMessage,
    ParseFailure,
    parse_message,
    to_call,
)
from rods.simulation.strict_json import JsonError, short, space_end, type_name

_PYTHON_TAG = "<|python_tag|>"


@dataclass(frozen=True)
class Protocol:
    """One way to write messages.

    Attributes:
        name: in the configuration.
        parse: message text to calls; never raises.
        expected: what a readable message looks like, for the error that answers an unreadable one.
        instruction: what the policy is told about it, beside the list of tools.
    """

    name: str
    parse: Callable[[str], ParsedMessage]
    expected: str
    instruction: str


def get(name: str) -> Protocol:
    """The protocol called `name`, one of `PROTOCOLS`."""
    return PROTOCOLS[name]


def parse_envtuning(text: str) -> ParsedMessage:
    """Read `<think>…</think>` followed by `<tool_call>[…]</tool_call>` or `<answer>…</answer>`, nothing else.

    The list holds 1 to `MAX_CALLS` objects `{"name": …, "arguments": {…}}`. Anything else is one parse
    failure: not an answer, since a policy must say that it answers.
    """
    if len(text) > MAX_MESSAGE_CHARS:
        return _unreadable(f"the message is longer than {MAX_MESSAGE_CHARS} characters")
    start = space_end(text, 0)
    if not text.startswith("<think>", start):
        return _unreadable(f"expected <think> at the start, found {_found(text, start)}")
    end = text.find("</think>", start)
    if end < 0:
        return _unreadable("the thought is not closed by </think>")
    start = space_end(text, end + len("</think>"))
    if text.startswith("<answer>", start):
        return _read_answer(text, start + len("<answer>"))
    if text.startswith("<tool_call>", start):
        return _read_list(text, start + len("<tool_call>"))
    return _unreadable(f"expected <tool_call> or <answer> after </think>, found {_found(text, start)}")


def _read_answer(text: str, start: int) -> ParsedMessage:
    end = text.find("</answer>", start)
    if end < 0:
        return _unreadable("the answer is not closed by </answer>")
    rest = space_end(text, end + len("</answer>"))
    if rest < len(text):
        return _unreadable(f"expected nothing after </answer>, found {_found(text, rest)}")
    return ParsedMessage((), True)


def _read_list(text: str, start: int) -> ParsedMessage:
    try:
        data, end = strict_json.read(text, start)
    except JsonError as error:
        return _unreadable(str(error))
    close = space_end(text, end)
    if not text.startswith("</tool_call>", close):
        return _unreadable(f"expected </tool_call> after the list, found {_found(text, close)}")
    rest = space_end(text, close + len("</tool_call>"))
    if rest < len(text):
        return _unreadable(f"expected nothing after </tool_call>, found {_found(text, rest)}")
    if not isinstance(data, list) or not 0 < len(data) <= MAX_CALLS:
        found = f"{len(data)} calls" if isinstance(data, list) else type_name(data)
        return _unreadable(f"expected a list of 1 to {MAX_CALLS} calls, found {found}")
    return ParsedMessage(tuple(to_call(item) for item in data), False)


def parse_llama(text: str) -> ParsedMessage:
    """Read `{"name": …, "parameters": {…}}` objects, parted by semicolons or in one list, and nothing else.

    `<|python_tag|>` may stand before them. A message that begins neither with it nor with `{` or `[` is an answer;
    one that does and cannot be read is one parse failure.
    """
    start = space_end(text, 0)
    tagged = text.startswith(_PYTHON_TAG, start)
    start = space_end(text, start + len(_PYTHON_TAG)) if tagged else start
    if not tagged and text[start : start + 1] not in ("{", "["):
        return ParsedMessage((), True)
    if len(text) > MAX_MESSAGE_CHARS:
        return _unreadable(f"the message is longer than {MAX_MESSAGE_CHARS} characters")
    try:
        items = _objects(text, start)
    except JsonError as error:
        return _unreadable(str(error))
    if not 0 < len(items) <= MAX_CALLS:
        return _unreadable(f"expected 1 to {MAX_CALLS} calls, found {len(items)}")
    return ParsedMessage(tuple(to_call(item, "parameters") for item in items), False)


def _objects(text: str, start: int) -> list[Any]:
    """The list at `start`, or the values from there to the end of the text, which semicolons part.

    Raises:
        JsonError: they cannot be read, or something else follows.
    """
    data, end = strict_json.read(text, start)
    items = data if isinstance(data, list) else [data]
    end = space_end(text, end)
    while data is not items and text.startswith(";", end) and len(items) <= MAX_CALLS:
        item, end = strict_json.read(text, end + 1)
        items.append(item)
        end = space_end(text, end)
    if end < len(text) and len(items) <= MAX_CALLS:
        raise JsonError(f"expected nothing after the calls, found {_found(text, end)}")
    return items


def _unreadable(reason: str) -> ParsedMessage:
    return ParsedMessage((ParseFailure(reason),), False)


def _found(text: str, start: int) -> str:
    return "the end of the message" if start >= len(text) else short(text[start : start + 20])


HERMES = Protocol(
    "hermes",
    parse_message,
    'JSON between the tool call tags: {"name": <function name>, "arguments": {<name>: <value>}}.',
    # Word for word as in Qwen3's chat template.
    "For each function call, return a json object with function name and arguments within "
    '<tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": '
    "<args-json-object>}\n</tool_call>",
)
ENVTUNING = Protocol(
    "envtuning",
    parse_envtuning,
    '<think>…</think> and then either <tool_call>[{"name": <function name>, "arguments": {<name>: <value>}}, …]'
    "</tool_call> or <answer>…</answer>, and nothing else.",
    "Write every message in two parts. First think about the next step within <think></think> tags. Then either "
    "call one or more functions, as a JSON list within <tool_call></tool_call> tags, or, when the request is done "
    "or cannot be done, answer the user within <answer></answer> tags:\n<think>\n<your thoughts>\n</think>\n"
    '<tool_call>\n[{"name": <function-name>, "arguments": <args-json-object>}]\n</tool_call>\nor\n<think>\n'
    "<your thoughts>\n</think>\n<answer>\n<your answer>\n</answer>",
)
LLAMA = Protocol(
    "llama",
    parse_llama,
    '{"name": <function name>, "parameters": {<name>: <value>}} and nothing else; several calls parted by ";".',
    # Word for word as in Llama 3.1's chat template.
    "Given the following functions, please respond with a JSON for a function call with its proper arguments that "
    'best answers the given prompt.\n\nRespond in the format {"name": function name, "parameters": dictionary of '
    "argument name and its value}.Do not use variables.",
)
PROTOCOLS = {protocol.name: protocol for protocol in (HERMES, ENVTUNING, LLAMA)}
