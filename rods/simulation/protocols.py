"""How a policy writes calls and answers. A protocol is what it is told, and the strict parser of what it says.

`hermes` is the native format of Qwen's models: any number of `<tool_call>` objects, and a message without one
is the answer. `envtuning` is that of EnvTuning (arXiv 2510.10197): a thought, then one list of calls or one
answer, and nothing else. Its published code writes the calls of the list as Python; here they are JSON, since
model text is never read as code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Protocol:
    """One way to write messages.

    Attributes:
        name: in the configuration.
        parse: message text to calls; never raises.
        expected: what a readable message looks like, for the error that answers an unreadable one.
        instruction: what the system message says after the list of tools.
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
PROTOCOLS = {protocol.name: protocol for protocol in (HERMES, ENVTUNING)}
