"""Reading calls from model text, and checking them against the documentation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rods.simulation.calls import CallError, ParsedMessage, ParseFailure, parse_message, validate
from rods.simulation.functions import documentation
from rods.tasks.bfcl_package import CLASSES, UnknownClassError
from rods.tasks.model import Call

DOCS = documentation(CLASSES)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def wrap(text: str) -> str:
    return f"<tool_call>\n{text}\n</tool_call>"


def only(message: str) -> Call | ParseFailure:
    parsed = parse_message(message)
    assert not parsed.is_answer
    (item,) = parsed.calls
    return item


def refusal(name: str, **arguments: Any) -> str:
    with pytest.raises(CallError) as caught:
        validate(Call(name, arguments), DOCS)
    return str(caught.value)


@settings(deadline=None)  # machines under load
@given(st.text(min_size=1), st.dictionaries(st.text(), JSON_VALUES, max_size=4))
def test_a_written_call_is_read_back(name: str, arguments: dict[str, Any]) -> None:
    text = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    assert only(wrap(text)) == Call(name, arguments)


def test_several_calls_with_text_between_keep_their_order() -> None:
    calls = [Call("cd", {"folder": "a"}), Call("ls", {}), Call("pwd", {})]
    text = "first ".join(wrap(json.dumps(call.to_json())) for call in calls)
    assert parse_message(f"I will do this. {text} Done.") == ParsedMessage(tuple(calls), False)


def test_text_without_a_call_is_an_answer() -> None:
    assert parse_message("All done: {'name': 'ls'}") == ParsedMessage((), True)
    assert parse_message("") == ParsedMessage((), True)


def test_a_closing_tag_inside_a_string_does_not_end_the_call() -> None:
    call = Call("echo", {"content": "</tool_call><tool_call>"})
    assert only(wrap(json.dumps(call.to_json()))) == call


def test_a_call_that_is_only_thought_of_is_not_made() -> None:
    thought = f"<think>maybe {wrap('{}')}</think>"
    assert parse_message(f"{thought} No.").is_answer
    assert only(f"{thought}{wrap(json.dumps(Call('ls', {}).to_json()))}") == Call("ls", {})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"name": "ls", "arguments": {}', "invalid JSON"),
        ("{'name': 'ls', 'arguments': {}}", "invalid JSON"),
        ('{"name": "ls", "arguments": {"a": NaN}}', "NaN is not JSON"),
        ('{"name": "ls", "arguments": {"a": -Infinity}}', "-Infinity is not JSON"),
        ('{"name": "ls", "arguments": {"a": 1, "a": 2}}', "'a' occurs twice"),
        ('{"name": "ls", "name": "cd", "arguments": {}}', "'name' occurs twice"),
        ('{"name": "ls"}', "missing arguments"),
        ('{"name": "ls", "arguments": {}, "id": 1}', "unknown 'id'"),
        ('{"name": 1, "arguments": {}}', '"name" must be a string'),
        ('{"name": "ls", "arguments": "{}"}', '"arguments" must be a JSON object'),
        ('{"name": "ls", "arguments": null}', "found null"),
        ('[{"name": "ls", "arguments": {}}]', "found an array"),
        ('{"name": "ls", "arguments": {"a": "\n"}}', "Invalid control character"),
        ('{"name": "ls", "arguments": {"a": ' + "9" * 5000 + "}}", "too many digits"),
        ('{"name": "ls", "arguments": {"a": ' + "[" * 100_000 + "}}", "nested too deeply"),
        ('{"name": "ls", "arguments": {}} ls', "expected </tool_call>"),
        ("__import__('os').system('true')", "invalid JSON"),
        ("", "invalid JSON"),
    ],
)
def test_what_cannot_be_read_says_why_and_hides_nothing_after_it(text: str, reason: str) -> None:
    good = Call("pwd", {})
    failure, after = parse_message(wrap(text) + wrap(json.dumps(good.to_json()))).calls
    assert isinstance(failure, ParseFailure)
    assert reason in failure.reason
    assert after == good


@pytest.mark.parametrize(
    "text", ['<tool_call>\n{"name": "ls", "arguments": {}}', '<tool_call>\n{"name": "l', "<tool_call>"]
)
def test_a_truncated_call_is_a_failure_not_an_answer(text: str) -> None:
    assert isinstance(only(text), ParseFailure)


def test_endless_messages_are_cut_off() -> None:
    assert "longer than" in str(only("<tool_call>" + "x" * 10_000_000))
    many = parse_message(wrap('{"name": "ls", "arguments": {}}') * 1000).calls
    assert isinstance(many[-1], ParseFailure)
    assert len(many) < 100


@settings(deadline=None)  # machines under load
@given(st.text() | st.text().map(wrap) | JSON_VALUES.map(lambda value: wrap(json.dumps(value))))
def test_reading_never_raises(text: str) -> None:
    parsed = parse_message(text)
    assert parsed.is_answer == ("<tool_call>" not in text)


def test_documentation_is_json_schema_for_all_functions() -> None:
    assert len(DOCS) == 128
    text = json.dumps([doc.to_tool() for doc in DOCS.values()])
    assert '"type": "dict"' not in text
    assert '"type": "float"' not in text
    assert DOCS["mean"].parameters["properties"]["numbers"]["items"]["type"] == "number"
    assert DOCS["echo"].parameters["properties"]["file_name"]["default"] is None
    with pytest.raises(UnknownClassError, match="WebSearchAPI"):
        documentation(["WebSearchAPI"])


def test_documentation_follows_the_order_of_the_classes() -> None:
    docs = list(documentation(["TicketAPI", "MathAPI"]).values())
    assert docs[0].class_name == "TicketAPI"
    assert docs[-1].class_name == "MathAPI"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("ls", {}),
        ("add", {"a": 1, "b": 2.5}),
        ("echo", {"content": "x", "file_name": None}),
        ("get_ticket", {"ticket_id": "ticket_001"}),
        ("edit_ticket", {"ticket_id": 1, "updates": {"priority": 2}}),
        ("mean", {"numbers": []}),
    ],
)
def test_calls_that_fit_are_accepted(name: str, arguments: dict[str, Any]) -> None:
    validate(Call(name, arguments), DOCS)


def test_a_refusal_says_what_would_be_right() -> None:
    assert "'fly'" in refusal("fly")
    assert "pwd" in refusal("fly")
    assert "missing arguments: folder. Arguments of cd: folder (string)" in refusal("cd")
    assert "unknown arguments: 'deep'" in refusal("ls", deep=True)
    assert "a must be of type boolean, found 1" in refusal("ls", a=1)
    assert "numbers.1 must be of type number" in refusal("mean", numbers=[1, "2"])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("add", {"a": True, "b": 1}),
        ("get_tweet", {"tweet_id": True}),
        ("get_tweet", {"tweet_id": 1.0}),
        ("cd", {"folder": None}),
        ("cd", {"folder": ["a"]}),
        ("edit_ticket", {"ticket_id": 1, "updates": "open"}),
        ("_load_scenario", {"scenario": {}}),
        ("__init__", {}),
        ("add", {"a": float("inf"), "b": 1}),
        ("add", {"a": float("nan"), "b": 1}),
        ("add", {"a": 1 << 5000, "b": 1}),
        ("echo", {"content": "x" * 10_000_000}),
        ("mean", {"numbers": [1] * 100_000}),
        ("echo", {"content": "\ud800"}),
        ("echo", {"content": "a", "\udfff": "b"}),
    ],
)
def test_calls_that_do_not_fit_are_refused_briefly(name: str, arguments: dict[str, Any]) -> None:
    assert len(refusal(name, **arguments)) < 5000


def test_deeply_nested_arguments_are_refused() -> None:
    nested: Any = 1
    for _ in range(100):
        nested = {"a": nested}
    assert "nested" in refusal("edit_ticket", ticket_id=1, updates=nested)
