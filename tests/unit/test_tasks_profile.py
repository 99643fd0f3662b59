"""Φ: what makes an edge, what does not, and the laws of the distance."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rods.tasks import profile as profiles
from rods.tasks.model import Call, Task, TaskType, Turn
from rods.tasks.profile import Edge, Profile, ProfileError, distance, profile


def task(*turns: Turn, type_: TaskType = TaskType.BASE) -> Task:
    return Task("t", type_, ("TradingBot",), {}, turns)


def turn(query: str, *calls: tuple[str, dict]) -> Turn:
    return Turn(query, tuple(Call(name, arguments) for name, arguments in calls))


def test_a_returned_value_used_later_is_an_edge() -> None:
    made = task(turn("Open an order.", ("place", {"n": 7})), turn("Cancel it.", ("cancel", {"id": 12446})))
    found = profile(made, [[json.dumps({"order_id": 12446})], ["{}"]])
    assert found.edges == (Edge(0, 1),)
    assert (found.flow, found.depth, found.calls_per_turn) == (1, 1, (1, 1))


@pytest.mark.parametrize(
    ("said", "value", "result"),
    [
        ("Cancel order 12446.", 12446, {"order_id": 12446}),  # the user said it
        ("Cancel it.", "12446x", {"order_id": "12446"}),  # part of a string is not the string
        ("Cancel it.", 12446, {"order_id": "12446"}),  # a number is not a string
        ("Cancel it.", 1, {"order_id": 1}),  # held by any result
        ("Cancel it.", True, {"ok": True}),
        ("Cancel it.", "order_id", {"order_id": 5}),  # keys are not values
    ],
)
def test_what_is_no_edge(said: str, value: object, result: dict) -> None:
    made = task(turn("Open.", ("place", {})), turn(said, ("cancel", {"id": value})))
    assert profile(made, [[json.dumps(result)], [""]]).edges == ()


def test_a_number_may_be_used_as_its_rendering() -> None:
    made = task(turn("Count, and write it down.", ("wc", {"f": "a"}), ("echo", {"content": "42"})))
    assert profile(made, [[json.dumps({"count": 42}), "None"]]).flow == 1


def test_a_value_said_only_later_does_not_hide_the_edge() -> None:
    made = task(turn("Open.", ("place", {}), ("cancel", {"id": 77})), turn("Again 77.", ("get", {})))
    assert profile(made, [[json.dumps({"id": 77}), ""], [""]]).edges == (Edge(0, 1),)


def test_the_nearest_producer_is_read_and_depth_is_the_longest_path() -> None:
    made = task(turn("Go.", ("a", {}), ("b", {"x": "aa"}), ("c", {"y": "bb"}), ("d", {"x": "aa"})))
    results = [[json.dumps({"v": "aa"}), json.dumps(["aa", "bb"]), "", ""]]
    found = profile(made, results)
    assert found.edges == (Edge(0, 1), Edge(1, 2), Edge(1, 3))
    assert found.depth == 2


def test_nested_arguments_and_plain_text_results_count() -> None:
    made = task(turn("Go.", ("a", {}), ("b", {"x": {"deep": ["zone nine"]}})))
    assert profile(made, [["zone nine", ""]]).flow == 1


def test_results_of_another_task_are_refused() -> None:
    with pytest.raises(ProfileError, match=r"expected \[1\] results per turn, found \[2\]"):
        profile(task(turn("Go.", ("a", {}))), [["", ""]])


names = st.sampled_from(["ls", "cat", "mv", "sort"])


@st.composite
def some_profiles(draw: st.DrawFn) -> Profile:
    counts = draw(st.lists(st.integers(0, 3), min_size=1, max_size=5))
    total = sum(counts)
    functions = tuple(draw(st.lists(names, min_size=total, max_size=total)))
    pairs = [(a, b) for b in range(total) for a in range(b)]
    chosen = draw(st.sets(st.sampled_from(pairs), max_size=4)) if pairs else set()
    edges = tuple(Edge(a, b) for a, b in sorted(chosen, key=lambda pair: (pair[1], pair[0])))
    type_ = draw(st.sampled_from(list(TaskType)))
    classes = tuple(sorted(draw(st.sets(st.sampled_from(["A", "B", "C"]), min_size=1))))
    return Profile(type_, classes, tuple(counts), functions, edges, profiles.depth_of(edges))


@given(some_profiles(), some_profiles())
def test_the_distance_is_symmetric_bounded_and_zero_on_equals(a: Profile, b: Profile) -> None:
    assert distance(a, a) == 0
    assert distance(a, b) == pytest.approx(distance(b, a))
    assert 0 <= distance(a, b) <= 1
    if a.type is not b.type:
        assert distance(a, b) == 1


def test_each_part_of_the_profile_moves_the_distance() -> None:
    base = Profile(TaskType.BASE, ("A",), (2, 1), ("ls", "cat", "mv"), (Edge(0, 1),), 1)
    others = [
        replace(base, classes=("B",)),
        replace(base, calls_per_turn=(1, 1, 1)),
        replace(base, calls_per_turn=(2, 1, 0)),
        replace(base, functions=("ls", "cat", "cp")),
        replace(base, edges=()),
        replace(base, depth=2),
    ]
    assert all(distance(base, other) > 0 for other in others)
    assert sum(profiles.WEIGHTS.values()) == pytest.approx(1)


def test_visible_means_whole_words() -> None:
    assert profiles.visible("log.txt", "Open 'log.txt'.")
    assert profiles.visible(40.0, "put in 40 gallons")
    assert not profiles.visible("log", "the logs")
    assert not profiles.visible(4, "put in 40 gallons")


def test_the_profile_of_real_seeds_has_flow() -> None:
    """facts/bfcl.md: about 70% of the entries have a real flow edge; at most 6 edges."""
    from rods import tasks
    from rods.config import TasksConfig
    from rods.synthesis.seeds import read_seed

    seeds = random.Random(0).sample(tasks.load(TasksConfig(source="bfcl")).train, 80)
    found = [read_seed(seed).profile for seed in seeds]
    assert 0.5 <= sum(item.flow > 0 for item in found) / len(found) <= 0.85
    assert max(item.flow for item in found) <= 7
