"""Rewards as functions of an outcome."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rods.registry import UnknownNameError
from rods.reward import build
from rods.simulation.checker import TurnVerdict
from rods.simulation.session import Outcome


def outcome(*passed: bool, turns: int = 4, codes: tuple[int, ...] = ()) -> Outcome:
    verdicts = tuple(TurnVerdict(state=True, response=value, judged=True) for value in passed)
    return Outcome(verdicts, codes, turns, len(codes))


def test_progress_divides_by_all_turns_reached_or_not() -> None:
    progress = build("progress")
    assert progress(outcome()) == 0.0
    assert progress(outcome(True)) == 0.25
    assert progress(outcome(True, False, True, False)) == 0.5
    assert progress(outcome(True, True, True, True)) == 1.0


def test_a_turn_needs_both_checks() -> None:
    half = Outcome((TurnVerdict(state=False, response=True, judged=True),), (), 1, 0)
    assert build("progress")(half) == 0.0


def test_binary_needs_every_turn() -> None:
    binary = build("binary")
    assert binary(outcome(True, True, True)) == 0.0
    assert binary(outcome(True, True, True, False)) == 0.0
    assert binary(outcome(True, True, True, True)) == 1.0


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ((), 0.0),
        ((0, 1), 0.0),
        ((-1, -1, 1), 2.0),
        ((-3,), 0.0),
        ((-2, 0), 1.0),
        ((-1, -2, 1), 1.5),
        ((-3, -1, -2, -2, 1), 3 / 4 + 1 / 3),
    ],
)
def test_format_follows_the_formula(codes: tuple[int, ...], expected: float) -> None:
    assert build("format")(outcome(codes=codes)) == pytest.approx(expected)


@settings(deadline=None)  # machines under load
@given(st.lists(st.sampled_from((-3, -2, -1, 0, 1))))
def test_format_stays_in_its_range(codes: list[int]) -> None:
    assert 0.0 <= build("format")(outcome(codes=tuple(codes))) <= 2.0


def test_an_unknown_reward_lists_the_known() -> None:
    with pytest.raises(UnknownNameError, match="binary, format, progress"):
        build("speed")
