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
from rods.simulation.protocols import ENVTUNING, HERMES, parse_envtuning
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
    with pytest.raises(ConfigError, match=r"simulation\.protocol = 'xml'.*hermes, envtuning"):
        validate(from_mapping(data))
    assert set(protocols.PROTOCOLS) == {"hermes", "envtuning"}
