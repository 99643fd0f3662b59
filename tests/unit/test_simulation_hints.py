"""EnvTuning's hints: one for every error in the simulators' source, and nothing at all when they are off."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

pytest.importorskip("bfcl_eval")

from simulator_errors import SourceError, source_errors

from rods.config import RewardConfig, SimulationConfig
from rods.simulation.functions import documentation
from rods.simulation.hints import hint
from rods.simulation.hints_table import FALLBACK, RULES
from rods.simulation.session import Session
from rods.tasks.bfcl_package import CLASSES
from rods.tasks.model import Call, Task, TaskType, Turn

ERRORS = source_errors()
LITERAL = [error for error in ERRORS if error.example]
NAMED = re.compile(r"`(\w+)`")
# Errors whose whole text is computed → what they carry: the text of another error, or of a Python exception.
COMPUTED = {
    ("GorillaFileSystem", "find"): "find: '7': No such file or directory",
    ("MathAPI", "logarithm"): "",
    ("TravelAPI", "book_flight"): "No available route for the given airports.",
}


def rendered(error: SourceError, example: str) -> str:
    if error.raised:
        return f"Error during execution: {example}"
    return json.dumps({"error": int(example) if example.isdigit() else example})


def test_the_source_was_read_whole() -> None:
    assert {error.class_name for error in ERRORS} == set(CLASSES)
    assert len(ERRORS) >= 170
    assert {(e.class_name, e.function) for e in ERRORS if not e.example} == COMPUTED.keys()


@pytest.mark.parametrize(
    "error", LITERAL, ids=lambda error: f"{error.class_name}.{error.function}-{error.example[:30]}"
)
def test_every_error_has_a_hint_of_its_own(error: SourceError) -> None:
    text = rendered(error, error.example)
    functions = documentation([error.class_name])
    given = hint(error.class_name, error.function, text, functions)
    assert given != FALLBACK.replace("{function}", error.function)
    assert "{" not in given
    assert set(NAMED.findall(given)) <= {*functions, error.function}
    alone = hint(error.class_name, error.function, text, ())
    assert set(NAMED.findall(alone)) <= {error.function}
    assert alone != FALLBACK.replace("{function}", error.function)


def test_computed_errors_get_the_hint_of_what_they_carry_or_the_general_one() -> None:
    for (class_name, function), example in COMPUTED.items():
        given = hint(class_name, function, json.dumps({"error": example}), documentation([class_name]))
        assert (given == FALLBACK.replace("{function}", function)) == (not example)
    raised = hint("TradingBot", "get_stock_info", "Error during execution: 'price'", ())
    assert raised.startswith("`get_stock_info` did not work")


def test_every_hint_is_given_for_some_error() -> None:
    unused = {(name, advice) for name, rules in RULES.items() for _, advice in rules}
    for error in LITERAL:
        functions = set(documentation([error.class_name]))
        text = rendered(error, error.example)
        for available in (functions, set(), *(functions - {name} for name in functions)):
            given = hint(error.class_name, error.function, text, available)
            unused -= {
                (name, advice)
                for name, advice in unused
                if name == error.class_name and advice.replace("{function}", error.function) == given
            }
    assert unused == set()


@pytest.mark.parametrize("error", LITERAL[::4], ids=lambda error: error.example[:30])
def test_a_hint_says_more_than_the_error(error: SourceError) -> None:
    given = hint(error.class_name, error.function, rendered(error, error.example), ())
    assert error.example.rstrip(".").lower() not in given.lower() or error.example == "404"


def play(simulation: SimulationConfig, subject: Task, calls: list[Call]) -> tuple[list[str], Any]:
    session = Session(subject, simulation, RewardConfig())
    seen = []
    for call in calls:
        seen += session.advance(f"<tool_call>{json.dumps(call.to_json())}</tool_call>").observations
    session.advance("Done.")
    return seen, session.outcome()


CALLS = [
    Call("retweet", {"tweet_id": 7}),
    Call("get_user_tweets", {"username": "a"}),
    Call("get_tweet", {"tweet_id": 7}),
    Call("fly", {}),
    Call("retweet", {}),
]


def test_hints_follow_errors_and_change_nothing_else() -> None:
    subject = Task("t", TaskType.BASE, ("TwitterAPI",), {}, (Turn("?", (CALLS[1],)),))
    off, on = SimulationConfig(), SimulationConfig(hints="envtuning")
    bare, outcome = play(off, subject, CALLS)
    hinted, same = play(on, subject, CALLS)
    assert outcome == same
    assert bare[0] == '{"error": "User not authenticated. Please authenticate before retweeting."}'
    assert (
        hinted[0] == f"{bare[0]}\nHint: Log in with `authenticate_twitter` first, then call `retweet` again."
    )
    assert hinted[1] == bare[1]
    assert hinted[2].startswith(f"{bare[2]}\nHint: No tweet has that ID.")
    assert hinted[3] == bare[3]


def test_a_withheld_function_is_not_given_away() -> None:
    withheld = ("authenticate_twitter",)
    subject = Task("t", TaskType.MISS_FUNC, ("TwitterAPI",), {}, (Turn("?", ()),), withheld)
    (seen,), _ = play(SimulationConfig(hints="envtuning"), subject, CALLS[:1])
    assert seen.endswith("Hint: You are not logged in, and this needs a user who is.")
