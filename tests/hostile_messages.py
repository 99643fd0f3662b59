"""Hostile assistant messages, and a script that plays them all under limits and an audit hook.

`python hostile_messages.py corpus` prints one JSON object a message: its observations, the codes, the events that
must never happen, and whether the world was as before; the last one is a canary that shows the hook at work.
`python hostile_messages.py grow` plays what hypothesis makes of the corpus and fails at the first bad answer.
Each message may take one second of CPU time; the process may grow by 256 MB.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from rods.config import RewardConfig, SimulationConfig
from rods.simulation.session import Session
from rods.tasks.bfcl_package import CLASSES
from rods.tasks.model import Task, TaskType, Turn

SECONDS, BYTES = 1.0, 256 * 2**20
FORBIDDEN = (
    *(
        "compile",
        "exec",
        "import",
        "open",
        "os.",
        "subprocess.",
        "socket.",
        "ctypes.",
        "shutil.",
        "code.__new__",
    ),
    *("pickle.", "urllib.", "glob.", "tempfile.", "builtins.input", "builtins.breakpoint"),
)
TREE = {"root": {"home": {"type": "directory", "contents": {"a.txt": {"type": "file", "content": "x"}}}}}
TASK = Task("hostile", TaskType.BASE, CLASSES, {"GorillaFileSystem": TREE}, (Turn("?", ()), Turn("?", ())))


def wrap(text: str) -> str:
    """A tool call with this text inside."""
    return f"<tool_call>\n{text}\n</tool_call>"


def call(name: Any, arguments: Any) -> str:
    """A well-formed message; NaN and lone surrogates are written as Python's JSON writes them."""
    return wrap(json.dumps({"name": name, "arguments": arguments}))


def refused() -> dict[str, str]:
    """Name → message whose every call must get an error, the world staying as it was."""
    groups = {
        "code": map(wrap, _CODE),
        "json": map(wrap, _BAD_JSON),
        "frame": _FRAMES,
        "name": (call(name, {}) for name in _NAMES),
        "type": (call(name, {**good, key: bad}) for name, good, key, bad in _types()),
        "arity": (call(name, arguments) for name, arguments in _ARITY),
        "size": (call(name, arguments) for name, arguments in _sizes()),
        "path": (call(name, {key: path}) for name, key in _PATH_TAKERS for path in _PATHS),
    }
    return {f"{group}-{index}": text for group, texts in groups.items() for index, text in enumerate(texts)}


def allowed() -> dict[str, str]:
    """Name → message that looks bad and is only text: it may run, within the world."""
    texts = [text for text in (*_CODE, *_PATHS) if text and not any("\ud800" <= c <= "\udfff" for c in text)]
    return {f"content-{index}": call("touch", {"file_name": text}) for index, text in enumerate(texts)}


_CODE = [
    "__import__('os').system('touch /tmp/owned')",
    "ls()",
    "ls(a=True)",
    "[ls(), pwd()]",
    "cd(folder=ls())",
    "().__class__.__bases__[0].__subclasses__()",
    "exec('1')",
    "eval('1')",
    "compile('1', '', 'eval')",
    "(lambda: 0)()",
    "globals()",
    "open('/etc/passwd').read()",
    "print(1)",
    "import os",
    "{{7*7}}",
    "${7*7}",
    "$(id)",
    "`id`",
    "{% for x in y %}",
    "%s%s%s%n",
    "'; DROP TABLE users; --",
    "<script>alert(1)</script>",
    "<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b 'c'>]>",
    "!!python/object/apply:os.system ['id']",
    "cos\nsystem\n(S'id'\ntR.",
    "\x80\x04\x95",
    "0x41",
    "self.root",
    "GorillaFileSystem.ls",
    "f'{1+1}'",
]
_BAD_JSON = [
    "",
    " ",
    "null",
    "true",
    "1",
    '"ls"',
    "[]",
    "{}",
    "{",
    "}",
    '{"name": "ls"',
    '{"name": "ls", "arguments": {}',
    '{"name": "ls", "arguments": {}}}',
    '{"name": "ls", "arguments": {}},',
    '{"name": "ls", "arguments": {}} {"name": "ls", "arguments": {}}',
    "{'name': 'ls', 'arguments': {}}",
    '{name: "ls", arguments: {}}',
    '{"name": "ls", "arguments": {},}',
    '{"name": "ls", "arguments": {"a": True}}',
    '{"name": "ls", "arguments": {"a": NaN}}',
    '{"name": "add", "arguments": {"a": Infinity, "b": 1}}',
    '{"name": "add", "arguments": {"a": -Infinity, "b": 1}}',
    '{"name": "add", "arguments": {"a": 01, "b": 1}}',
    '{"name": "add", "arguments": {"a": 1., "b": 1}}',
    '{"name": "add", "arguments": {"a": .5, "b": 1}}',
    '{"name": "add", "arguments": {"a": +1, "b": 1}}',
    '{"name": "add", "arguments": {"a": 0x10, "b": 1}}',
    '{"name": "add", "arguments": {"a": 1e999, "b": 1}}',
    '{"name": "add", "arguments": {"a": 1, "a": 2, "b": 1}}',
    '{"name": "ls", "name": "rm", "arguments": {}}',
    '{"name": "ls", "arguments": {}, "arguments": {"a": true}}',
    '{"name": "ls", "arguments": {}, "id": 7}',
    '{"name": "ls", "parameters": {}}',
    '{"function": {"name": "ls", "arguments": {}}}',
    '{"name": "ls", "arguments": null}',
    '{"name": "ls", "arguments": []}',
    '{"name": "ls", "arguments": "{}"}',
    '{"name": "ls", "arguments": "{\\"a\\": true}"}',
    '{"name": null, "arguments": {}}',
    '{"name": ["ls"], "arguments": {}}',
    '{"name": {"ls": 1}, "arguments": {}}',
    '{"arguments": {}}',
    '[{"name": "ls", "arguments": {}}]',
    '{"name": "ls", "arguments": {"a": "\n"}}',
    '{"name": "ls", "arguments": {"a": "\x00"}}',
    '{"name": "ls", "arguments": {"a": "\\x41"}}',
    '{"name": "ls", "arguments": {"a": "\\ud83"}}',
    '// comment\n{"name": "ls", "arguments": {}}',
    '{"name": "ls" /* c */, "arguments": {}}',
    '```json\n{"name": "ls", "arguments": {}}\n```',
    '\ufeff{"name": "ls", "arguments": {}}',
    '\u200b{"name": "ls", "arguments": {}}',
    "[" * 100_000,
    '{"name": "ls", "arguments": ' + '{"a":' * 50_000,
    '{"name": "add", "arguments": {"a": ' + "9" * 100_000 + ', "b": 1}}',
    '{"name": "' + "l" * 10_000_000,
    "\\" * 1_000_000,
]
_GOOD = '{"name": "pwd", "arguments": {}}'
_FRAMES = [
    "<tool_call>",
    "<tool_call>\n",
    f"<tool_call>{_GOOD}",
    f"<tool_call>{_GOOD}</tool_call",
    f"<tool_call>{_GOOD}</TOOL_CALL>",
    f"<tool_call>{_GOOD}<tool_call>{_GOOD}",
    f"<tool_call><tool_call>{_GOOD}</tool_call></tool_call>",
    f"<tool_call>{_GOOD[:-1]}</tool_call>",
    f"<tool_call>{_GOOD[1:]}</tool_call>",
    f"<tool_call>pwd\n{_GOOD}</tool_call>",
    f"<tool_call>{_GOOD}\npwd</tool_call>",
    f"<tool_call>{_GOOD}</tool_response>",
    "<tool_call></tool_call>" * 60,
    "<tool_call>" * 50_000,
    "</tool_call><tool_call>",
]
_NAMES = [
    "",
    " ls",
    "ls ",
    "LS",
    "ls()",
    "GorillaFileSystem.ls",
    "functions.ls",
    "__init__",
    "__class__",
    "__dict__",
    "__reduce__",
    "__getattribute__",
    "_load_scenario",
    "_navigate_to_directory",
    "_api_description",
    "root",
    "tweets",
    "eval",
    "exec",
    "os.system",
    "subprocess.run",
    "import",
    "kill",
    "exit",
    "docs",
    "restore",
    "execute",
    "ls\x00",
    "ls\n",
    "ｌｓ",
    "l\u200bs",
    "l" * 100_000,
    "\ud800",
    "{0.__class__}",
    "../ls",
]
_ARITY: list[tuple[str, Any]] = [
    ("ls", {"a": True, "b": True}),
    ("pwd", {"self": 1}),
    ("pwd", {"": ""}),
    ("cd", {}),
    ("cd", {"Folder": "a"}),
    ("cd", {"folder": "home", "args": [], "kwargs": {}}),
    ("mv", {"source": "a.txt"}),
    ("mv", {"destination": "a.txt"}),
    ("add", {"a": 1}),
    ("add", {"a": 1, "b": 2, "c": 3}),
    ("add", {"0": 1, "1": 2}),
    ("add", {"*args": [1, 2]}),
    ("echo", {"content": "x", "__class__": "y"}),
    ("ls", {f"a{number}": 1 for number in range(5_000)}),
    ("pwd", {"x" * 100_000: 1}),
    ("place_order", {"order_type": "Buy", "symbol": "AAPL", "price": 1.0}),
    ("book_flight", {}),
]
_PATH_TAKERS = [("cd", "folder"), ("cat", "file_name"), ("rm", "file_name"), ("sort", "file_name")]
_PATHS = [
    "/etc/passwd",
    "../../../../etc/passwd",
    "..\\..\\windows",
    "~root",
    "file:///etc/passwd",
    "/proc/self/environ",
    "nul\x00l",
    "a.txt/../a.txt",
    "a\u202etxt.a",
    "*",
    "-rf",
    "%2e%2e%2f",
]


def _types() -> Iterator[tuple[str, dict[str, Any], str, Any]]:
    nested: Any = 1
    for _ in range(40):
        nested = [nested]
    for bad in (None, 1, True, ["a"], {"a": 1}, "\ud800", float("nan"), nested):
        yield "cd", {}, "folder", bad
    for bad in (None, "1", True, [1], {}, float("inf"), float("nan"), 1 << 60_000 >> 50_000):
        yield "add", {"b": 1}, "a", bad
    for bad in (None, "12", 12.5, True, [12], float("-inf"), 1 << 2_500):
        yield "get_tweet", {}, "tweet_id", bad
    for bad in (None, "1,2", 1, {"0": 1}, ["1"], [None], [[1]], [True], [float("nan")]):
        yield "mean", {}, "numbers", bad
    for bad in (None, "priority", 3, [], [["priority", 3]], nested):
        yield "edit_ticket", {"ticket_id": 1}, "updates", bad


def _sizes() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "power", {"base": 10, "exponent": 10**9}
    yield "power", {"base": 10**300, "exponent": 10**6}
    yield "power", {"base": -7, "exponent": 10**18}
    yield "power", {"base": 2.5, "exponent": 10**9}
    yield "logarithm", {"value": 10, "base": 2, "precision": 10**9}
    yield "square_root", {"number": 2, "precision": 10**9}
    yield "square_root", {"number": -2, "precision": 5}
    yield "round_number", {"number": 1.5, "decimal_places": 10**12}
    yield "divide", {"a": 1, "b": 0}
    yield "mean", {"numbers": []}
    yield "mean", {"numbers": [1] * 60_000}
    yield "echo", {"content": "x" * 10_000_000}
    yield "echo", {"content": "x" * 150_000, "file_name": "a.txt"}
    yield "cd", {"folder": "a/" * 70_000}
    yield "multiply", {"a": 1e308, "b": "x" * 100_000}
    yield "edit_ticket", {"ticket_id": 1, "updates": {str(number): number for number in range(20_000)}}
    yield "grep", {"file_name": "no.txt", "pattern": "(a+)+$" * 1_000}
    yield "startEngine", {"ignitionMode": "START" * 10_000}
    yield "compute_exchange_rate", {"base_currency": "A" * 50_000, "target_currency": "B", "value": 1.0}


class TooSlowError(Exception):
    """A message that took more than its second."""


def _too_slow(signal_number: int, frame: Any) -> None:
    raise TooSlowError


class Theatre:
    """An episode over all eight classes, watched while a message is answered."""

    def __init__(self) -> None:
        self._session = Session(TASK, SimulationConfig(step_limit=10**6), RewardConfig())
        self._watching = False
        self._events: list[str] = []
        for warm in (call("logarithm", {"value": 2, "base": 3, "precision": 5}), call("cd", {}), wrap("{")):
            self._session.advance(warm)
        signal.signal(signal.SIGVTALRM, _too_slow)
        sys.addaudithook(self._audit)

    def play(self, message: str) -> dict[str, Any]:
        """How one message is answered, and whether the world stayed as it was."""
        session = self._session
        before, codes = session._world.state(), len(session.outcome().codes)
        observations, events = self.watch(lambda: session.advance(message).observations)
        return {
            "observations": observations,
            "codes": session.outcome().codes[codes:],
            "events": events,
            "unchanged": session._world.state() == before,
            "usable": "/" in session.advance(call("pwd", {})).observations[0],
        }

    def watch(self, act: Callable[[], Any]) -> tuple[Any, list[str]]:
        """What `act` returns, and the forbidden events that it caused."""
        self._events.clear()
        self._watching = True
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            return act(), list(self._events)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            self._watching = False

    def _audit(self, event: str, _: Any) -> None:
        if self._watching and event.startswith(FORBIDDEN):
            self._events.append(event)


def limit_memory() -> None:
    """No more than 256 MB beyond what the process has now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + BYTES, size + BYTES))


def corpus() -> None:
    """Play all messages, and last the canary."""
    messages, theatre = {**refused(), **allowed()}, Theatre()
    limit_memory()
    for name, message in messages.items():
        print(json.dumps({"name": name, **theatre.play(message)}))
    _, events = theatre.watch(lambda: compile("1", "canary", "eval"))
    print(json.dumps({"name": "canary", "events": events}))


def grow() -> None:
    """Cut, repeat, join and edit the corpus's messages."""
    from hypothesis import given, settings
    from hypothesis import strategies as st

    from rods.simulation.calls import parse_message

    theatre = Theatre()
    short = [text for text in {**refused(), **allowed()}.values() if len(text) < 2_000]
    pieces = st.sampled_from(
        [*short, *_CODE, *_PATHS, "<tool_call>", "</tool_call>", "<think>", '"', "{", "\\u"]
    )

    @st.composite
    def messages(draw: st.DrawFn) -> str:
        text = "".join(draw(st.lists(pieces | st.text(max_size=5), min_size=1, max_size=4)))
        start, end = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
        return text[:start] + text[start:end] * draw(st.sampled_from((0, 1, 1, 2, 50))) + text[end:]

    @settings(max_examples=500, deadline=None, database=None)  # machines under load
    # An answer ends the episode, and so does a thought that is never closed, whatever stands in it.
    @given(messages().filter(lambda text: not parse_message(text).is_answer))
    def holds(message: str) -> None:
        found = theatre.play(message)
        assert found["events"] == []
        assert found["usable"]
        assert all(isinstance(text, str) and text for text in found["observations"])
        assert found["unchanged"] or -1 in found["codes"]

    holds()


if __name__ == "__main__":
    {"corpus": corpus, "grow": grow}[sys.argv[1]]()
