"""Variants one step deeper or shallower: what a step is, and that the pipeline holds variants to it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthesis_examples import FILES, Answers, context, plan, seed_task

from rods import tasks
from rods.config import SynthesisConfig, TasksConfig
from rods.synthesis import filters, planner, prompting
from rods.synthesis.agents import Arguments, Query
from rods.synthesis.depth import SHIFTS, Target
from rods.synthesis.errors import FuncSampleFailure
from rods.synthesis.pipeline import Outcome, Pipeline
from rods.synthesis.scripted import build
from rods.synthesis.seeds import read_seed
from rods.tasks.model import Task, TaskType
from rods.tasks.phrasebook import operations
from rods.tasks.profile import Edge, Profile, depth_of, distance

ALLOWED = SynthesisConfig().max_profile_distance


def profiled(*turns: str, edges: Sequence[tuple[int, int]] = ()) -> Profile:
    """Φ of turns given as words of function names."""
    counts = tuple(len(turn.split()) for turn in turns)
    flow = tuple(Edge(*edge) for edge in sorted(edges, key=lambda edge: (edge[1], edge[0])))
    return Profile(TaskType.BASE, ("Api",), counts, tuple(" ".join(turns).split()), flow, depth_of(flow))


SEED = profiled("a b", "c", edges=[(0, 2)])

DEEPER = [
    profiled("a b", "c", "d", edges=[(0, 2)]),  # a turn at the end
    profiled("d", "a b", "c", edges=[(1, 3)]),  # a turn at the start
    profiled("a b", "d e", "c", edges=[(0, 4), (0, 2)]),  # a turn between, which reads a result
    profiled("a b", "c", "d", edges=[(0, 2), (2, 3)]),  # a turn that makes the longest path longer
    profiled("a b", "c d", edges=[(0, 2)]),  # a call at the end
    profiled("a d b", "c", edges=[(0, 3)]),  # a call between
    profiled("a b", "c", edges=[(0, 2), (0, 1), (1, 2)]),  # the same calls, a longer path
]
NOT_DEEPER = [
    SEED,
    profiled("a b", "c", edges=[]),  # shallower
    profiled("a b", edges=[]),
    profiled("a b", "c", "d", "e", edges=[(0, 2)]),  # two turns more
    profiled("a b", "c d e", edges=[(0, 2)]),  # two calls more
    profiled("x y", "z", "w", edges=[]),  # a turn more, and all else is other
    replace(DEEPER[0], type=TaskType.MISS_FUNC),
]


@pytest.mark.parametrize("deeper", DEEPER)
def test_a_step_deeper_is_one_turn_one_call_or_one_dependency(deeper: Profile) -> None:
    assert Target(SEED, 1).distance(deeper) <= ALLOWED
    assert Target(deeper, -1).distance(SEED) <= ALLOWED, "and its own seed is a step shallower"
    assert Target(SEED, -1).distance(deeper) == 1.0
    assert Target(deeper, 1).distance(SEED) == 1.0


@pytest.mark.parametrize("found", NOT_DEEPER)
def test_more_than_a_step_less_than_one_or_another_task_is_too_far(found: Profile) -> None:
    assert Target(SEED, 1).distance(found) > ALLOWED


def test_an_exact_step_is_at_distance_zero_wherever_it_is_taken() -> None:
    assert [Target(SEED, 1).distance(deeper) for deeper in DEEPER[:6]] == [0.0] * 6
    # A dependency more is a difference in flow that stays: two of the three edges are new.
    assert Target(SEED, 1).distance(DEEPER[6]) == pytest.approx(0.2 * 2 / 3)


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    turns = draw(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3), min_size=1, max_size=4))
    count = sum(map(len, turns))
    pairs = [(one, two) for two in range(count) for one in range(two)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=4)) if pairs else []
    return profiled(*map(" ".join, turns), edges=edges)


@given(profiles(), profiles())
def test_the_distance_to_a_target_is_bounded_and_turned_round_with_the_shift(a: Profile, b: Profile) -> None:
    assert Target(a).distance(b) == distance(a, b)
    up, down = Target(a, 1).distance(b), Target(a, -1).distance(b)
    assert 0 <= up <= 1
    assert 0 <= down <= 1
    assert up == Target(b, -1).distance(a)
    assert max(up, down) == 1.0, "nothing is a step deeper and a step shallower"


@given(profiles(), st.sampled_from("abc"), st.data())
def test_any_turn_or_call_that_is_put_in_is_one_step(seed: Profile, name: str, data: st.DataObject) -> None:
    """A turn or call without flow, put in anywhere: its target is met exactly."""
    turn = data.draw(st.integers(0, seed.turns - 1))
    at = sum(seed.calls_per_turn[:turn])

    def moved(index: int) -> int:
        return index + (index >= at)

    edges = tuple(Edge(moved(edge.source), moved(edge.target)) for edge in seed.edges)
    functions = (*seed.functions[:at], name, *seed.functions[at:])
    counts = list(seed.calls_per_turn)
    counts[turn] += 1
    longer = replace(seed, functions=functions, edges=edges)
    with_call = replace(longer, calls_per_turn=tuple(counts))
    with_turn = replace(longer, calls_per_turn=(*seed.calls_per_turn[:turn], 1, *seed.calls_per_turn[turn:]))
    assert Target(seed, 1).distance(with_call) == 0
    assert Target(seed, 1).distance(with_turn) == 0


# The planner


def planned(shift: int, *turns: list[str]) -> tuple[tuple[str, ...], ...]:
    """The functions of a plan for the two-turn seed, or its failure."""
    usual = context(Answers(planner=plan(*turns)))
    shifted = replace(usual, seed=read_seed(seed_task(), shift))
    return asyncio.run(planner.plan(shifted, FILES, (), ())).functions


@pytest.mark.parametrize(
    ("shift", "turns"),
    [
        (1, [["wc"], ["touch"], ["ls"]]),
        (1, [["wc"], ["touch", "ls"]]),
        (1, [["wc"], ["touch"]]),  # a dependency more shows when it is executed
        (-1, [["wc"]]),
        (-1, [["wc"], ["touch"]]),
    ],
)
def test_a_plan_of_one_step_is_taken_as_it_is(shift: int, turns: list[list[str]]) -> None:
    assert planned(shift, *turns) == tuple(map(tuple, turns))


@pytest.mark.parametrize(
    ("shift", "turns"),
    [
        (1, [["wc"]]),
        (1, [["wc"], ["touch"], ["ls"], ["pwd"]]),
        (1, [["wc"], ["touch"], ["fly"]]),  # not mended: mending brings plans into the seed's shape
        (-1, [["wc"], ["touch"], ["ls"]]),
        (-1, [["wc"] * 4]),
    ],
)
def test_a_plan_of_another_step_is_refused_and_says_what_was_asked_for(
    shift: int, turns: list[list[str]]
) -> None:
    with pytest.raises(FuncSampleFailure, match=SHIFTS[shift]):
        planned(shift, *turns)


def test_the_planner_is_told_which_step_to_take() -> None:
    told = {}
    for shift in SHIFTS:
        backend = Answers(planner=plan(["wc"], ["touch"]))
        asyncio.run(
            planner.plan(replace(context(backend), seed=read_seed(seed_task(), shift)), FILES, (), ())
        )
        told[shift] = prompting.render("planner", backend.asked[0][1])
    assert "as hard as the example" in told[0]
    assert "step" not in told[0].split("Functions (name")[0]
    assert "one step harder than the example" in told[1]
    assert "one turn more" in told[1]
    assert "one step easier than the example" in told[-1]
    assert "one turn less" in told[-1]


# The whole pipeline


def made(shift: int, *turns: list[str]) -> Outcome:
    """What becomes of the two-turn seed with these plans."""
    calls = {"wc": {"file_name": "notes.txt", "mode": "w"}, "touch": {"file_name": "plan.md"}, "pwd": {}}
    texts = {"wc": "How many words are in notes.txt?", "touch": "Add plan.md.", "pwd": "Where am I?"}
    backend = Answers(
        planner=plan(*turns),
        arguments=lambda inputs: Arguments(arguments=calls[inputs["function"]]),
        query=lambda inputs: Query(text=texts[inputs["draft"].turns[inputs["turn"]].calls[0].name]),
    )
    return asyncio.run(Pipeline(SynthesisConfig(), backend, 0).run(seed_task(), "000001-seed", shift))


@pytest.mark.parametrize(
    ("shift", "turns"), [(0, [["wc"], ["touch"]]), (1, [["wc"], ["pwd"], ["touch"]]), (-1, [["wc"]])]
)
def test_a_variant_has_the_depth_that_was_asked_for_and_says_so(shift: int, turns: list[Any]) -> None:
    (task,) = made(shift, *turns).tasks
    assert len(task.turns) == 2 + shift
    assert task.provenance["depth_shift"] == shift
    assert task.provenance["profile_distance"] == 0


SCRIPTED = tasks.load(TasksConfig(source="scripted", train_count=24, heldout_count=0)).train


def scripted(task: Task, shift: int, **settings: Any) -> Outcome:
    """What the scripted backend makes of a task."""
    config = SynthesisConfig(**settings)
    return asyncio.run(Pipeline(config, build(config), 0, SCRIPTED).run(task, "key", shift))


@pytest.mark.parametrize(("shift", "least"), [(1, 24), (-1, 16)])
def test_the_scripted_backend_moves_tasks_of_every_type(shift: int, least: int) -> None:
    found = [(task, scripted(task, shift)) for task in SCRIPTED]
    made = [(task, outcome.tasks[0]) for task, outcome in found if outcome.tasks]
    assert len(made) >= least
    assert {task.type for task, _ in made} == {task.type for task in SCRIPTED}
    assert all(len(variant.turns) == len(task.turns) + shift for task, variant in made)
    assert all(filters.failed_turns(variant) == () for _, variant in made)
    refused = {len(operations(task)) for task, outcome in found if not outcome.tasks}
    assert refused <= {1}, "only of a single request nothing can be left out"


@pytest.mark.parametrize("shift", [1, -1])
def test_of_bfcls_tasks_it_makes_none_deeper_and_some_shallower(shift: int) -> None:
    seeds = tasks.load(TasksConfig(source="bfcl")).train[:40:4]
    outcomes = [scripted(seed, shift) for seed in seeds]
    lengths = [(len(o.tasks[0].turns), len(s.turns)) for s, o in zip(seeds, outcomes, strict=True) if o.tasks]
    if shift > 0:
        assert lengths == []
        assert all("+1" in outcome.reason for outcome in outcomes)
    else:
        assert lengths
        assert all(found == own - 1 for found, own in lengths)


def test_without_a_planner_it_still_fills_the_sampled_functions_in_the_seeds_own_world() -> None:
    made = [(task, scripted(task, 0, narrative_planning=False).tasks) for task in SCRIPTED]
    accepted = [(task, variants[0]) for task, variants in made if variants]
    assert len(accepted) >= 16
    assert all(variant.initial_state == task.initial_state for task, variant in accepted)
    assert all(filters.failed_turns(variant) == () for _, variant in accepted)
    assert any(
        [call.name for turn in variant.turns for call in turn.calls]
        != [call.name for turn in task.turns for call in turn.calls]
        for task, variant in accepted
    )


@pytest.mark.parametrize("shift", [1, -1])
def test_a_variant_as_deep_as_its_seed_does_not_pass_for_another(shift: int) -> None:
    outcome = made(shift, ["wc"], ["touch"])
    assert outcome.tasks == ()
    assert f"Φ is 1.00 from {SHIFTS[shift]}" in outcome.reason
