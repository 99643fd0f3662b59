"""The ways to decide beside the paper's, once seeds are chosen: prioritised replay, streaming, review."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rods.config import BufferConfig
from rods.curriculum import pool, retirement
from rods.curriculum.errors import ImpossibleEventError
from rods.curriculum.events import (
    RetirementReason,
    TaskReadmitted,
    TaskRetired,
    VariantInjected,
)
from rods.curriculum.records import TaskStatus
from rods.curriculum.state import CurriculumState, fold
from rods.curriculum.strategy import injection, review, sampling
from rods.curriculum.strategy.sampling import FLOOR, spread
from tests.unit.curriculum_examples import Run, run_with_variants, seed_task, variant_task

UNIT = st.floats(0, 1)


# --- prioritised replay


def prioritised_state(means):
    run = Run([seed_task(name) for name in means], buffer_config=BufferConfig(sampling="prioritised"))
    run.open_epoch()
    run.observe(1, {name: (mean, mean) for name, mean in means.items() if mean is not None})
    run.close_epoch()
    run.open_epoch()
    return run.state


def test_an_epoch_has_as_many_visits_shared_by_signal():
    state = prioritised_state({f"t{n}": (0.5 if n < 10 else 1.0) for n in range(40)})
    visits = Counter(sampling.order(state, seed=1, epoch=2, per_step=8))
    share = 40 * (FLOOR + 1) / (10 * (FLOOR + 1) + 30 * FLOOR)
    assert sum(visits.values()) == 40
    for n in range(10):
        assert visits[f"t{n}"] in (int(share), int(share) + 1)


def test_what_was_never_observed_counts_as_the_best():
    state = prioritised_state({"new": None, **{f"t{n}": 1.0 for n in range(9)}})
    visits = Counter(sampling.order(state, seed=0, epoch=2, per_step=2))
    assert visits["new"] == max(visits.values()) >= 4


@given(
    st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.none() | UNIT, min_size=1, max_size=30),
    st.integers(0, 5),
    st.integers(1, 9),
)
def test_no_step_has_a_task_twice_and_the_order_is_a_function_of_its_arguments(means, seed, per_step):
    state = prioritised_state(means)
    order = sampling.order(state, seed, 2, per_step)
    assert order == sampling.order(CurriculumState.from_json(state.to_json()), seed, 2, per_step)
    assert 1 <= len(order) <= len(means)
    for start in range(0, len(order), per_step):
        step = order[start : start + per_step]
        assert len(set(step)) == len(step)


def test_spreading_moves_no_more_than_it_must():
    assert spread("abcabc", 3) == list("abcabc")
    assert spread("aabbcc", 2) == list("ababc")
    assert spread("aaab", 2) == ["a", "b", "a"]


def test_each_once_is_the_default():
    state = Run([seed_task(name) for name in "abc"]).state
    assert sampling.order(state, 1, 1, 2) == pool.epoch_order(state, 1, 1)


# --- streaming injection


def streaming_run(count, **changes):
    """Twenty seeds, an open epoch after step 1, and so many variants waiting."""
    run = Run(
        [seed_task(f"s{n}") for n in range(20)],
        buffer_config=BufferConfig(injection="stream", injection_fraction=0.2, **changes),
    )
    run.open_epoch()
    key = run.emit(1, "s0")
    for index in range(count):
        run.offer(variant_task(f"v{index}", "s0"), key, index)
    return run


def stream(run):
    events = injection.between_steps(run.state, run.state.step, run.state.epoch)
    run.take(events)
    return [event.task_id for event in events]


def test_a_variant_is_active_in_the_epoch_it_arrived_in():
    run = streaming_run(2)
    assert stream(run) == ["v0", "v1"]
    assert run.state.tasks["v1"].status is TaskStatus.ACTIVE
    run.observe(2, {"v0": (1.0, 0.0)})


def test_an_epoch_lets_in_no_more_than_its_share():
    run = streaming_run(9)
    assert stream(run) == ["v0", "v1", "v2", "v3"]  # ⌊0.2 · 20⌋
    assert stream(run) == []
    run.close_epoch()
    run.open_epoch()  # what waited enters at the border: ⌊0.2 · 24⌋
    assert dict(run.state.index.injected) == {1: 4, 2: 4}
    assert stream(run) == []


def test_what_left_the_pool_meanwhile_gives_no_second_share():
    run = streaming_run(9)
    stream(run)
    observed = run.observe(2, {f"v{n}": (0.0, 0.0) for n in range(4)})
    run.take(retirement.after_step(run.state, observed, 2, 1))
    assert len(run.state.index.live) == 0
    assert stream(run) == []


def test_without_streaming_nothing_enters_between_steps():
    run = Run([seed_task(f"s{n}") for n in range(20)])
    run.open_epoch()
    key = run.emit(1, "s0")
    run.offer(variant_task("v", "s0"), key)
    assert stream(run) == []
    with pytest.raises(ImpossibleEventError, match="epoch"):
        run.take([VariantInjected(1, 1, "v")])


# --- review of what was retired


def run_with_a_mastered_variant(**changes):
    """In epoch 2 the variant v was retired as mastered."""
    run = run_with_variants(["v"], BufferConfig(burn_in=0, review_epochs=2, **changes))
    observed = run.observe(2, {"v": (1.0, 1.0)})
    run.take(retirement.after_step(run.state, observed, 2, 2))
    assert run.state.tasks["v"].reason is RetirementReason.DRIFT_MASTERED
    run.close_epoch()
    return run


def due(run):
    return [event.task_id for event in review.due(run.state, run.state.step, run.state.epoch + 1)]


def test_a_mastered_variant_comes_back_after_its_pause_and_only_then():
    run = run_with_a_mastered_variant()
    assert due(run) == []  # epoch 3: one epoch unseen
    run.open_epoch()
    run.close_epoch()
    assert due(run) == ["v"]
    run.take([TaskReadmitted(run.state.step, 4, "v")])
    assert run.state.tasks["v"].status is TaskStatus.ACTIVE
    assert run.state.tasks["v"].injected_epoch == 2
    assert due(run) == []


def readmitted():
    run = run_with_a_mastered_variant()
    run.open_epoch()
    run.close_epoch()
    run.take(review.due(run.state, run.state.step, 4))
    run.open_epoch()
    return run


def test_it_stays_when_the_policy_has_lost_it_and_leaves_when_it_has_not():
    for rewards, reason in (((1.0, 0.0), None), ((1.0, 1.0), RetirementReason.DRIFT_MASTERED)):
        run = readmitted()
        observed = run.observe(3, {"v": rewards})
        retired = retirement.after_step(run.state, observed, 3, 4)
        assert [event.reason for event in retired] == ([reason] if reason else [])


def test_it_is_not_stale_because_it_was_away():
    run = readmitted()
    assert retirement.at_epoch_end(run.state, 3, 4) == []


def test_what_was_retired_for_another_reason_never_comes_back():
    run = run_with_variants(["v"], BufferConfig(burn_in=1, review_epochs=1))
    observed = run.observe(2, {"v": (0.0, 0.0)})
    run.take(retirement.after_step(run.state, observed, 2, 2))
    run.close_epoch()
    for _ in range(3):
        assert due(run) == []
        run.open_epoch()
        run.close_epoch()
    with pytest.raises(ImpossibleEventError, match="mastered"):
        run.take([TaskReadmitted(run.state.step, run.state.epoch + 1, "v")])


def test_reviews_leave_the_capacity_alone_and_can_be_switched_off():
    run = run_with_a_mastered_variant(capacity=1)
    run.open_epoch()
    run.close_epoch()
    assert due(run) == ["v"]
    off = run_with_variants(["v"], BufferConfig(burn_in=0))
    observed = off.observe(2, {"v": (1.0, 1.0)})
    off.take(retirement.after_step(off.state, observed, 2, 2))
    off.close_epoch()
    assert review.due(off.state, 9, 9) == []


def test_a_snapshot_of_all_this_is_the_same_state_with_the_same_index():
    run = readmitted()
    restored = CurriculumState.from_json(run.state.to_json())
    assert restored == run.state
    assert restored.index == run.state.index
    assert restored.digest() == run.state.digest()
    assert fold(run.start, run.events).digest() == run.state.digest()
    retired = TaskRetired(run.state.step, run.state.epoch, "v", RetirementReason.STALE, 1.0)
    assert fold(restored, [retired]).index == fold(run.state, [retired]).index
