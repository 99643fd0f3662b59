"""Near-duplicates: what is one task in other words, and what only looks like it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthesis_examples import FILES, seed_task

from rods import tasks
from rods.config import TasksConfig
from rods.synthesis.similarity import Corpus, call_shingles, jaccard
from rods.tasks.model import Call, Task, TaskType, Turn

ORDER = {"symbol": "NVDA", "price": 120.5, "amount": 10, "order_type": "Buy"}
TWEET = {"content": "Bought some.", "tags": ["#stocks"], "mentions": ["@ada", "@bob"]}


def task(order: dict[str, Any], tweet: dict[str, Any], state: Any = None, query: str = "Buy.") -> Task:
    turns = (
        Turn(query, (Call("get_stock_info", {"symbol": order["symbol"]}), Call("place_order", order))),
        Turn("Tell them.", (Call("post_tweet", tweet),)),
    )
    return Task("known", TaskType.BASE, ("TradingBot", "TwitterAPI"), state or {"TradingBot": {}}, turns)


KNOWN = task(ORDER, TWEET)


def repeats(other: Task, threshold: float = 0.9) -> bool:
    return bool(Corpus([KNOWN], threshold).repeated(replace(other, id="other")))


def test_exact_content_and_other_words_are_duplicates() -> None:
    assert repeats(KNOWN)
    assert repeats(task(ORDER, TWEET, query="Get me ten of them."))
    assert repeats(task({**ORDER, "symbol": "nvda ", "price": 120.50}, TWEET))


def test_another_world_does_not_make_specific_calls_new() -> None:
    assert repeats(task(ORDER, TWEET, {"TradingBot": {"balance": 5, "market": "Open"}}))


def test_adversarial_turns_and_types_do_not_make_it_new() -> None:
    hidden = replace(
        KNOWN,
        type=TaskType.MISS_FUNC,
        withheld=("post_tweet",),
        turns=(KNOWN.turns[0], Turn("Tell them.", ()), replace(KNOWN.turns[1], restored=("post_tweet",))),
    )
    assert repeats(hidden)


def test_other_values_other_functions_and_another_order_are_new() -> None:
    assert not repeats(task({**ORDER, "symbol": "AAPL", "amount": 3}, TWEET))
    assert not repeats(task(ORDER, {"content": "Sold all.", "tags": ["#out"], "mentions": []}))
    assert not repeats(replace(KNOWN, turns=tuple(reversed(KNOWN.turns))))
    assert not repeats(replace(KNOWN, turns=KNOWN.turns[:1]))


def test_few_values_repeat_by_chance_unless_the_world_is_the_same() -> None:
    small = seed_task()
    corpus = Corpus([small], 0.9)
    told = replace(small, turns=tuple(replace(turn, query="Do it.") for turn in small.turns))
    assert corpus.repeated(told)
    other = {"GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": {}}}}}
    assert other.keys() == FILES.keys()
    assert not corpus.repeated(replace(told, initial_state=other))


def test_the_answer_does_not_depend_on_the_order_of_the_corpus_and_names_the_nearest() -> None:
    near = replace(task({**ORDER, "amount": 11}, TWEET), id="near")
    asked = replace(task(ORDER, TWEET, query="Again."), id="asked")
    answers = {Corpus(known, 0.8).repeated(asked) for known in ([KNOWN, near], [near, KNOWN])}
    assert answers == {"1.00 like known, allowed less than 0.8"}
    assert Corpus([], 0.8).repeated(asked, [near])
    assert Corpus([], 0.8).repeated(asked) == ""


bags = st.dictionaries(st.integers(0, 5), st.integers(1, 3)).map(Counter)


@given(bags, bags)
def test_the_index_is_symmetric_bounded_and_one_for_equal_bags_only(a: Counter, b: Counter) -> None:
    assert jaccard(a, b) == jaccard(b, a)
    assert 0 <= jaccard(a, b) <= 1
    assert (jaccard(a, b) == 1) == (a == b)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=9
)


@given(VALUES)
def test_any_argument_has_shingles(value: Any) -> None:
    assert call_shingles([Call("f", {"x": value})])["", "f"] == 1


@pytest.mark.parametrize("source", ["bfcl", "scripted"])
def test_the_shipped_split_is_told_apart(source: str) -> None:
    """One BFCL pair across the split has equal calls (136 and 107, four types); nothing else does."""
    loaded = tasks.load(TasksConfig(source=source, train_count=60, heldout_count=60))
    corpus = Corpus(loaded.heldout, 0.9)
    repeated = {seed.id for seed in loaded.train if corpus.repeated(seed)}
    assert {name.rpartition("_")[2] for name in repeated} <= {"136"}


def bag_task(name: str, values: list[int]) -> Task:
    """A call for each value."""
    calls = tuple(Call("f", {"value": value}) for value in values)
    return Task(name, TaskType.BASE, (), {}, (Turn("Do it.", calls),))


_VALUES = st.lists(st.integers(0, 4), min_size=1, max_size=12)


@given(st.lists(_VALUES, min_size=1, max_size=6), _VALUES, st.sampled_from([0.3, 0.5, 0.8, 0.9, 1.0]))
def test_the_index_misses_nothing_that_comparing_with_all_would_find(
    known: list[list[int]], own: list[int], threshold: float
) -> None:
    corpus = Corpus([bag_task(f"t{index}", values) for index, values in enumerate(known)], threshold)
    mine = bag_task("mine", own)
    one_by_one = [bool(Corpus([], threshold).repeated(mine, [bag_task("t", values)])) for values in known]
    assert bool(corpus.repeated(mine)) == any(one_by_one)
