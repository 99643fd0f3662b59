"""What has a source, what has none, and what stands in BFCL: its impossible arguments and its Φ."""

from __future__ import annotations

import json
from collections import Counter
from statistics import median
from typing import Any

import pytest
from typer.testing import CliRunner

from rods import cli, tasks
from rods.config import SynthesisConfig, TasksConfig
from rods.simulation.exposure import Exposure, expose
from rods.tasks.audit import audit
from rods.tasks.model import Call, Task, TaskType, Turn
from rods.tasks.profile import Profile, isomorphic, profile

TOOL = {
    "type": "function",
    "function": {
        "name": "do",
        "description": "Does it. Modes are fast and slow.",
        "parameters": {
            "type": "object",
            "properties": {"x": {"type": "string", "description": "e.g. draft"}},
        },
    },
}
SIBLING = {
    "function": {"name": "other", "parameters": {"properties": {"x": {"description": "one of gold or tin"}}}}
}


def findings(value: Any, said: str, earlier: str = "", state: str = "") -> list[str]:
    turns = (Turn("Begin.", (Call("start", {}),)), Turn(said, (Call("do", {"x": value}),)))
    task = Task("t", TaskType.BASE, ("C",), {}, turns)
    found = audit(task, [[earlier], [""]], ["", state], [TOOL, SIBLING])
    assert all((item.task, item.turn, item.function, item.argument) == ("t", 1, "do", "x") for item in found)
    return [item.reason for item in found]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("log.txt", {"said": "Open LOG.txt please."}),
        (12446, {"said": "That one.", "earlier": '{"order_id": 12446}'}),
        ("USR003", {"said": "Tell Bob.", "state": '{"user_map": {"Bob": "USR003"}}'}),
        ("fast", {"said": "Hurry."}),
        ("draft", {"said": "Go."}),
        ("tin", {"said": "Go."}),
        ("LAX", {"said": "To Los Angeles."}),
        ("2024-05-07", {"said": "On May 7th 2024."}),
        ("2024-05-07", {"said": "On 07/05/2024."}),
        ("2024-10-31", {"said": "On the last day of October 2024."}),
        ("2024-11-16", {"said": "Two days after the 14th of November 2024."}),
        ("2024-11-15", {"said": "On the 15th of the eleventh month."}),
        ("US9148817941", {"said": "My passport starts with US, then 9148817941."}),
        ("The budget meeting moved to Friday", {"said": "Tell them that Friday is the budget meeting."}),
        ("#TechUpdate", {"said": "Tag it as an update on tech."}),
        (3, {"said": "Take three of them."}),
        (0.5, {"said": "Press it halfway."}),
        (7.93, {"said": "Fill in 30 liters."}),
        (60, {"said": "Two and a half dozen at 24 each.", "earlier": "2.5"}),
        (1500.0, {"said": "It costs 1,500."}),
        (True, {"said": "Yes."}),
        (1, {"said": "Go."}),
        (["a.txt", "b.txt"], {"said": "Both a.txt and b.txt."}),
        ({"deep": ["b.txt"]}, {"said": "Take b.txt."}),
    ],
)
def test_what_has_a_source(value: Any, shown: dict[str, str]) -> None:
    assert findings(value, **shown) == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("platinum", {"said": "The best."}),
        (98765, {"said": "That one.", "earlier": '{"order_id": 12446}'}),
        ("2024-05-07", {"said": "Some time in spring 2024."}),
        ("US9148817941", {"said": "Check my passport."}),
        (187.5, {"said": "Insure it."}),
        ("hunter2", {"said": "Log me in as bob."}),
    ],
)
def test_what_has_none_is_named_with_the_reason(value: Any, shown: dict[str, str]) -> None:
    (reason,) = findings(value, **shown)
    assert reason.startswith(f"x = {value!r} comes from no user message")


def test_only_what_came_before_counts() -> None:
    turns = (Turn("Go.", (Call("do", {"x": "platinum"}),)), Turn("I meant platinum.", ()))
    task = Task("t", TaskType.BASE, ("C",), {}, turns)
    assert [item.turn for item in audit(task, [["platinum"], []], ["", ""], [TOOL])] == [0]


@pytest.fixture(scope="module")
def shown() -> list[tuple[Task, Exposure]]:
    pytest.importorskip("bfcl_eval")
    loaded = tasks.load(TasksConfig(source="bfcl"))
    return [(task, expose(task)) for task in (*loaded.train, *loaded.heldout)]


@pytest.fixture(scope="module")
def profiles(shown: list[tuple[Task, Exposure]]) -> list[Profile]:
    return [profile(task, seen.results) for task, seen in shown]


@pytest.mark.slow
def test_bfcl_has_few_entries_that_nobody_can_pass_by_reading(shown: list[tuple[Task, Exposure]]) -> None:
    found = [item for task, seen in shown for item in audit(task, seen.results, seen.states, seen.tools)]
    assert len({item.task for item in found}) == 25
    assert Counter(item.argument for item in found) == {
        "insurance_type": 20,
        "insurance_cost": 3,
        "budget_limit": 2,
    }


# facts/bfcl.md: (median, maximum) by type. Its maximum of flow edges is 6; here it is 5, since two values that
# one call takes from one result are one edge of Φ.
FACTS = {
    TaskType.BASE: {"turns": (4, 7), "calls": (5.5, 10), "apis": (5, 9), "flow": (1, 5), "depth": (1, 4)},
    TaskType.MISS_FUNC: {"turns": (5, 8), "calls": (5, 10), "apis": (5, 9), "flow": (1, 5), "depth": (1, 4)},
    TaskType.MISS_PARAM: {"turns": (5, 8), "calls": (5, 10), "apis": (5, 9), "flow": (1, 5), "depth": (1, 4)},
    TaskType.LONG_CONTEXT: {
        "turns": (4, 7),
        "calls": (6, 35),
        "apis": (5, 9),
        "flow": (1, 5),
        "depth": (1, 4),
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FACTS)
def test_the_medians_over_all_entries_are_those_of_the_facts(kind: TaskType, profiles: list[Profile]) -> None:
    chosen = [item for item in profiles if item.type is kind]
    assert len(chosen) == 200
    measures = {
        "turns": [item.turns for item in chosen],
        "calls": [len(item.functions) for item in chosen],
        "apis": [len(set(item.functions)) for item in chosen],
        "flow": [item.flow for item in chosen],
        "depth": [item.depth for item in chosen],
    }
    assert {name: (median(values), max(values)) for name, values in measures.items()} == FACTS[kind]


@pytest.mark.slow
def test_two_thirds_have_flow_and_two_thirds_of_it_crosses_turns(profiles: list[Profile]) -> None:
    assert sum(item.flow > 0 for item in profiles) / len(profiles) == pytest.approx(0.66, abs=0.01)
    crossing = [
        turn_of(item, edge.source) != turn_of(item, edge.target) for item in profiles for edge in item.edges
    ]
    assert sum(crossing) / len(crossing) == pytest.approx(0.65, abs=0.01)


@pytest.mark.slow
def test_isomorphism_holds_of_siblings_and_of_few_strangers(profiles: list[Profile]) -> None:
    threshold = SynthesisConfig().max_profile_distance
    base = [item for item in profiles if item.type is TaskType.BASE][:60]
    assert all(isomorphic(item, item, 0.0) for item in base)
    pairs = [(a, b) for a in base for b in base if a is not b]
    assert all(isomorphic(a, b, threshold) == isomorphic(b, a, threshold) for a, b in pairs)
    share = sum(isomorphic(a, b, threshold) for a, b in pairs) / len(pairs)
    assert 0 < share < 0.1
    assert all(isomorphic(a, b, 1.0) for a, b in pairs)


def turn_of(item: Profile, call: int) -> int:
    return [index for index, count in enumerate(item.calls_per_turn) for _ in range(count)][call]


def test_the_command_lists_and_counts() -> None:
    pytest.importorskip("bfcl_eval")
    done = CliRunner().invoke(cli.app, ["tasks", "audit", "--source", "scripted", "--count", "20", "--json"])
    assert done.exit_code == 0, done.output
    *lines, total = done.output.strip().splitlines()
    assert total.endswith("of 20 tasks")
    assert total.startswith(f"{len(lines)} arguments without a source")
    assert all(json.loads(line)["task"] for line in lines)
