"""Config Patch: paths with dots in keys, deep merge, and what is refused."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rods.synthesis.agents import StatePatch
from rods.synthesis.patching import PatchRefusedError, apply, join_path, split_path

STATE = {
    "GorillaFileSystem": {"root": {"docs": {"report.txt": {"content": "old"}, "n": [1, 2]}}},
    "TradingBot": {"balance": 10, "open": False, "orders": {7: {"status": "x"}}},
}


def patch(class_name: str, path: str, value: object) -> StatePatch:
    return StatePatch(class_name=class_name, path=path, value=value)


keys = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=5)


@given(keys)
def test_paths_round_trip_whatever_the_keys_hold(parts: list[str]) -> None:
    assert split_path(join_path(parts)) == parts


@given(st.text(alphabet="ab.\\", max_size=8))
def test_any_path_is_read_or_refused(path: str) -> None:
    try:
        parts = split_path(path)
    except PatchRefusedError:
        return
    assert all(parts)
    assert split_path(join_path(parts)) == parts


@st.composite
def nested(draw: st.DrawFn) -> tuple[dict, list[str]]:
    """A scenario and the keys to one of its numbers."""
    parts = draw(keys)
    node: object = draw(st.integers())
    for part in reversed(parts):
        siblings = draw(st.dictionaries(st.text(min_size=1, max_size=3), st.booleans(), max_size=2))
        node = {**siblings, part: node}
    assert isinstance(node, dict)
    return node, parts


@given(nested(), st.integers())
def test_a_patch_changes_exactly_the_value_it_names(made: tuple[dict, list[str]], value: int) -> None:
    scenario, parts = made
    state = {"C": scenario}
    before = copy.deepcopy(state)
    patched = apply(state, [patch("C", join_path(parts), value)])
    assert state == before
    node, expected = patched["C"], copy.deepcopy(scenario)
    target = expected
    for part in parts[:-1]:
        target = target[part]
    target[parts[-1]] = value
    assert node == expected


def test_an_escaped_dot_is_part_of_the_key() -> None:
    patched = apply(STATE, [patch("GorillaFileSystem", r"root.docs.report\.txt.content", "new")])
    assert patched["GorillaFileSystem"]["root"]["docs"]["report.txt"]["content"] == "new"
    with pytest.raises(PatchRefusedError, match=r"'report' does not exist; found report.txt"):
        apply(STATE, [patch("GorillaFileSystem", "root.docs.report.txt.content", "new")])


def test_objects_merge_lists_are_indexed_and_integer_keys_found() -> None:
    patched = apply(
        STATE,
        [
            patch("TradingBot", "orders.7", {"status": "open"}),
            patch("GorillaFileSystem", "root.docs", {"report.txt": {"content": "x"}}),
            patch("GorillaFileSystem", "root.docs.n.1", 5),
        ],
    )
    assert patched["TradingBot"]["orders"] == {7: {"status": "open"}}
    assert patched["GorillaFileSystem"]["root"]["docs"] == {"report.txt": {"content": "x"}, "n": [1, 5]}


@pytest.mark.parametrize(
    ("class_name", "path", "value", "why"),
    [
        ("Nobody", "balance", 1, "no such class"),
        ("TradingBot", "credit", 1, "'credit' does not exist"),
        ("TradingBot", "balance.cents", 1, "'cents' does not exist; found int"),
        ("TradingBot", "balance", "10", "expected a value of type number, found string"),
        ("TradingBot", "open", 1, "expected a value of type boolean, found number"),
        ("TradingBot", "balance", True, "expected a value of type number, found boolean"),
        ("TradingBot", "orders", {"8": {}}, "'8' does not exist"),
        ("TradingBot", "orders", {"7": {"status": 3}}, "expected a value of type string, found number"),
        ("GorillaFileSystem", "root.docs.n.2", 5, "'2' does not exist"),
        ("GorillaFileSystem", "root.docs.n.²", 5, "does not exist"),
        ("GorillaFileSystem", "root.docs.n", {"0": 1}, "expected a value of type array"),
        ("TradingBot", "", 1, "an empty key"),
        ("TradingBot", "open.", True, "an empty key"),
        ("TradingBot", "op\\en", True, "a backslash before 'e'"),
        ("TradingBot", "open\\", True, "a backslash before ''"),
    ],
)
def test_what_is_refused_and_changes_nothing(class_name: str, path: str, value: object, why: str) -> None:
    before = copy.deepcopy(STATE)
    with pytest.raises(PatchRefusedError) as caught:
        apply(STATE, [patch("TradingBot", "balance", 11), patch(class_name, path, value)])
    assert why in str(caught.value)
    assert before == STATE
