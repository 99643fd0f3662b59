"""Sampling from the API graph: Φ's shape and flow are kept, whatever the plan and the draw."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthesis_examples import seed_task

from rods import tasks
from rods.config import TasksConfig
from rods.simulation.functions import documentation
from rods.synthesis import sampling
from rods.synthesis.seeds import Seed, read_seed

THRESHOLD = 0.25


@pytest.fixture(scope="module")
def seeds() -> list[Seed]:
    return [read_seed(task) for task in tasks.load(TasksConfig(source="bfcl")).train[::40]]


def test_the_graph_joins_results_to_parameters() -> None:
    graph = sampling.feeds(documentation(["TradingBot", "TicketAPI"]))
    assert {"cancel_order", "get_order_details"} <= graph["place_order"]
    assert {"get_ticket", "resolve_ticket"} <= graph["create_ticket"]
    assert "get_ticket" not in graph["place_order"]
    assert all(name not in others for name, others in graph.items())


def test_samples_have_the_seeds_shape_and_differ_from_it_at_times(seeds: list[Seed]) -> None:
    exchanged = 0
    for seed in seeds:
        own = sampling.seed_functions(seed)
        for draw in range(10):
            found = sampling.sampled(seed, random.Random(draw), THRESHOLD)
            assert found == sampling.sampled(seed, random.Random(draw), THRESHOLD)
            assert [len(turn) for turn in found] == [len(turn) for turn in own]
            assert sampling.fits(seed, found, THRESHOLD)
            exchanged += found != own
    assert exchanged > len(seeds)


def test_a_flow_edge_of_the_seed_stays_an_edge_of_the_graph(seeds: list[Seed]) -> None:
    edges = 0
    for seed in seeds:
        graph = sampling.feeds(seed.docs)
        own = [name for turn in sampling.seed_functions(seed) for name in turn]
        for draw in range(20):
            found = [name for turn in sampling.sampled(seed, random.Random(draw), THRESHOLD) for name in turn]
            for edge in seed.profile.edges:
                pair, before = (
                    (found[edge.source], found[edge.target]),
                    (own[edge.source], own[edge.target]),
                )
                assert pair == before or pair[1] in graph[pair[0]]
                edges += 1
    assert edges > 0


NAMES = [*documentation(["GorillaFileSystem"]), "fly", "", "swim"]


@given(
    st.lists(st.lists(st.sampled_from(NAMES), max_size=3), max_size=4), st.integers(0, 9), st.floats(0, 0.6)
)
def test_a_mended_plan_fits_and_keeps_what_was_right(
    planned: list[list[str]], draw: int, threshold: float
) -> None:
    seed = read_seed(seed_task())
    mended = sampling.mended(seed, tuple(map(tuple, planned)), random.Random(draw), threshold)
    if mended is None:
        return
    assert sampling.fits(seed, mended, threshold)
    for turn, names in enumerate(mended):
        right = [name for name in planned[turn] if name in seed.docs] if turn < len(planned) else []
        assert list(names[: len(right)]) == right[: len(names)]


def test_a_plan_that_is_mostly_wrong_is_not_mended() -> None:
    seed = read_seed(seed_task())
    assert sampling.mended(seed, (("fly",), ("swim",)), random.Random(0), 1.0) is None
    assert sampling.mended(seed, (("wc",) * 3, ("touch",) * 3), random.Random(0), 1.0) is None
    assert sampling.mended(seed, (("wc",), ("swim",)), random.Random(0), THRESHOLD) is not None
