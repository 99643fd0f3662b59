"""The two ways to write calls: what is read, what is refused, and which codes follow."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rods.config import Config, ConfigError, RewardConfig, SimulationConfig, from_mapping, validate
from rods.reward import build
from rods.simulation import protocols
from rods.simulation.calls import MAX_CALLS, ParsedMessage, ParseFailure
from rods.simulation.protocols import ENVTUNING, HERMES, LLAMA, parse_envtuning, parse_llama
from rods.simulation.session import Session
from rods.tasks.model import Call, Task, TaskType, Turn

LS, CD = Call("ls", {}), Call("cd", {"folder": "a"})
TASK = Task("t", TaskType.BASE, ("GorillaFileSystem",), {}, (Turn("Look.", (LS,)), Turn("Nothing.", ())))


def listed(*calls: Any) -> str:
    return f"<tool_call>{json.dumps([getattr(call, 'to_json', lambda c=call: c)() for call in calls])}</tool_call>"


THOUGHT = "<think>\nwhat now?\n</think>\n"


def reason(text: str) -> str:
    parsed = parse_envtuning(text)
    assert not parsed.is_answer
    (failure,) = parsed.calls
    assert isinstance(failure, ParseFailure)
    return failure.reason


def test_a_list_of_calls_or_an_answer_after_a_thought() -> None:
    assert parse_envtuning(THOUGHT + listed(LS, CD)) == ParsedMessage((LS, CD), False)
    assert parse_envtuning(f"\n{THOUGHT}<answer>\nDone.\n</answer>\n") == ParsedMessage((), True)
    assert parse_envtuning(f"<think></think>{listed(LS)}") == ParsedMessage((LS,), False)
    inside = Call("echo", {"content": "</tool_call><answer>"})
    assert parse_envtuning(THOUGHT + listed(inside)) == ParsedMessage((inside,), False)


def test_a_bad_item_of_the_list_leaves_the_others() -> None:
    first, second = parse_envtuning(THOUGHT + listed({"name": "ls"}, CD)).calls
    assert isinstance(first, ParseFailure)
    assert second == CD


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected <think> at the start, found the end"),
        ("Done.", "found 'Done.'"),
        (listed(LS), "expected <think> at the start"),
        ("<answer>Done.</answer>", "expected <think>"),
        ("<think>never ends", "not closed by </think>"),
        (THOUGHT, "expected <tool_call> or <answer> after </think>, found the end"),
        (THOUGHT + "Done.", "found 'Done.'"),
        (THOUGHT + "<answer>Done.", "not closed by </answer>"),
        (THOUGHT + "<answer>a</answer> b", "nothing after </answer>, found 'b'"),
        (THOUGHT + "<answer>a</answer>" + listed(LS), "nothing after </answer>"),
        (THOUGHT + listed(LS) + listed(CD), "nothing after </tool_call>"),
        (THOUGHT + listed(LS) + "<answer>a</answer>", "nothing after </tool_call>"),
        (THOUGHT + "<tool_call>" + json.dumps(LS.to_json()) + "</tool_call>", "found an object"),
        (THOUGHT + "<tool_call>[]</tool_call>", "found 0 calls"),
        (THOUGHT + listed(*[LS] * (MAX_CALLS + 1)), f"1 to {MAX_CALLS} calls, found {MAX_CALLS + 1}"),
        (THOUGHT + "<tool_call>[ls()]</tool_call>", "invalid JSON"),
        (THOUGHT + "<tool_call>[" + json.dumps(LS.to_json()), "invalid JSON"),
        (THOUGHT + "<tool_call>[1] x</tool_call>", "expected </tool_call> after the list, found 'x"),
        (THOUGHT + '<tool_call>[{"name": "ls", "name": "cd", "arguments": {}}]</tool_call>', "occurs twice"),
        (THOUGHT + "x" * 300_000, "longer than"),
        (THOUGHT + "<tool_call>" + "[" * 100_000, "nested too deeply"),
    ],
)
def test_everything_else_is_one_parse_failure_that_says_why(text: str, why: str) -> None:
    assert why in reason(text)


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "<think>",
                "</think>",
                "<tool_call>",
                "</tool_call>",
                "<answer>",
                "</answer>",
                "[",
                "]",
                "x",
                "\n",
            ]
        )
        | st.text(max_size=3),
        max_size=8,
    )
)
def test_reading_never_raises_and_answers_are_only_answers(pieces: list[str]) -> None:
    text = "".join(pieces)
    parsed = parse_envtuning(text)
    assert parsed.is_answer == (not parsed.calls)
    if parsed.is_answer:
        assert text.strip().startswith("<think>")
        assert text.strip().endswith("</answer>")


def test_codes_and_rewards_follow_the_protocol() -> None:
    session = Session(TASK, SimulationConfig(protocol="envtuning"), RewardConfig())
    (unread,) = session.advance("<tool_call>[]</tool_call>").observations
    assert ENVTUNING.expected in unread
    session.advance(THOUGHT + listed(Call("fly", {}), LS))
    assert session.advance(THOUGHT + "<answer>Done.</answer>").query == "Nothing."
    assert session.advance(THOUGHT + "<answer>Fine.</answer>").finished
    assert session.outcome().codes == (-3, -2, -1, 1, 1)
    assert build("format")(session.outcome()) == pytest.approx(2 / 3 + 1 / 2)


def test_hermes_is_the_default_and_tells_what_it_expects() -> None:
    session = Session(TASK, SimulationConfig(), RewardConfig())
    (unread,) = session.advance("<tool_call>[]</tool_call>").observations
    assert HERMES.expected in unread
    assert session.advance(THOUGHT + "<answer>Done.</answer>").query == "Nothing."


def test_an_unknown_protocol_is_refused_by_name() -> None:
    data = Config().to_dict()
    data["simulation"]["protocol"] = "xml"
    with pytest.raises(ConfigError, match=r"simulation\.protocol = 'xml'.*hermes, envtuning, llama"):
        validate(from_mapping(data))
    assert set(protocols.PROTOCOLS) == {"hermes", "envtuning", "llama"}


def native(*calls: Call) -> list[str]:
    return [json.dumps({"name": call.name, "parameters": dict(call.arguments)}) for call in calls]


@pytest.mark.parametrize("lead", ["", "\n ", "<|python_tag|>", " <|python_tag|> "])
def test_llamas_calls_alone_parted_or_listed(lead: str) -> None:
    one, two = native(LS, CD)
    assert parse_llama(f"{lead}{one}") == ParsedMessage((LS,), False)
    assert parse_llama(f"{lead}{one}; {two}\n") == ParsedMessage((LS, CD), False)
    assert parse_llama(f"{lead}[{one}, {two}]") == ParsedMessage((LS, CD), False)


@pytest.mark.parametrize(
    "text", ["", "Done.", "I call {} now.", '"ls"', "3", "null", 'x {"name": "ls", "parameters": {}}']
)
def test_any_other_beginning_is_llamas_answer(text: str) -> None:
    assert parse_llama(text) == ParsedMessage((), True)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<|python_tag|>", "invalid JSON"),
        ("<|python_tag|>ls()", "invalid JSON"),
        ('{"name": "ls"', "invalid JSON"),
        ('{"name": "ls", "name": "cd", "parameters": {}}', "occurs twice"),
        (native(LS)[0] + " Done.", "expected nothing after the calls, found 'Done.'"),
        (native(LS)[0] + ";", "invalid JSON"),
        (f"[{native(LS)[0]}]; {native(LS)[0]}", "expected nothing after the calls"),
        ("[]", f"expected 1 to {MAX_CALLS} calls, found 0"),
        ("; ".join(native(LS) * (MAX_CALLS + 1)), f"found {MAX_CALLS + 1}"),
        ("[" + ", ".join(native(LS) * (MAX_CALLS + 1)) + "]", f"found {MAX_CALLS + 1}"),
        ("{" + " " * 200_001, "longer than"),
        ("[" * 100_000, "nested too deeply"),
        ('{"name": "ls", "arguments": {}}', 'exactly the keys "name" and "parameters"'),
        ('{"name": "ls", "parameters": []}', '"parameters" must be a JSON object, found an array'),
        ('{"name": 1, "parameters": {}}', '"name" must be a string'),
        ("[3]", "expected a JSON object, found a number"),
    ],
)
def test_what_llama_writes_wrong_is_one_failure_with_its_reason(text: str, why: str) -> None:
    parsed = parse_llama(text)
    assert not parsed.is_answer
    (failure,) = parsed.calls
    assert isinstance(failure, ParseFailure)
    assert why in failure.reason


def test_a_bad_item_between_llamas_calls_leaves_the_others() -> None:
    one, two = native(LS, CD)
    first, second, third = parse_llama(f'{one}; {{"name": "x"}}; {two}').calls
    assert (first, third) == (LS, CD)
    assert isinstance(second, ParseFailure)


@given(st.text(max_size=60) | st.text(alphabet='{}[]";:, namelsp', max_size=60).map(lambda text: "{" + text))
def test_llamas_parser_never_raises(text: str) -> None:
    parsed = parse_llama(text)
    assert parsed.is_answer is not bool(parsed.calls)


def test_a_session_under_llamas_protocol() -> None:
    session = Session(TASK, SimulationConfig(protocol="llama"), RewardConfig())
    (result,) = session.advance(native(LS)[0]).observations
    assert "current_directory_content" in result
    (error,) = session.advance('{"name": "ls"}').observations
    assert LLAMA.expected in error
    assert session.advance("Looked.").query == "Nothing."
