"""The pool's door: what may enter, how many at once, and in which order an epoch runs."""

from dataclasses import replace

import pytest
from curriculum_examples import Run, seed_task, variant_task
from hypothesis import given
from hypothesis import strategies as st

from rods.config import BufferConfig
from rods.curriculum import pool, retirement
from rods.curriculum.events import SeedOutcome, VariantArrived, VariantRefused
from rods.tasks.model import Origin

TEN = [seed_task(f"s{index}") for index in range(10)]


def _run(**buffer) -> Run:
    run = Run(TEN, buffer_config=BufferConfig(**buffer))
    run.open_epoch()
    return run


def _injected(run: Run) -> list[str]:
    return [event.task_id for event in pool.inject(run.state, run.state.step, run.state.epoch + 1)]


def test_a_variant_is_eligible_from_the_epoch_after_its_arrival():
    run = _run()
    key = run.emit(1, "s0")
    run.offer(variant_task("v", "s0"), key)
    assert pool.inject(run.state, 1, 1) == []
    assert "v" not in pool.active(run.state)
    run.close_epoch()
    run.open_epoch()
    assert "v" in pool.active(run.state)
    assert run.state.tasks["v"].injected_epoch == 2


@pytest.mark.parametrize(
    ("fraction", "expected"),
    [(0.2, 2), (0.29, 2), (0.3, 3), (0.7, 7), (0.1, 1), (0.09, 0), (1.0, 10), (0.001, 0)],
)
def test_injection_is_the_floor_of_beta_times_active(fraction, expected):
    run = _run(injection_fraction=fraction)
    key = run.emit(1, "s0")
    for index in range(12):
        run.offer(variant_task(f"v{index:02d}", "s0"), key, index)
    run.close_epoch()
    assert len(_injected(run)) == expected


def test_beta_is_taken_as_written():
    seeds = [seed_task(f"s{index}") for index in range(100)]
    run = Run(seeds, buffer_config=BufferConfig(injection_fraction=0.29))  # as floats, 0.29 * 100 < 29
    run.open_epoch()
    key = run.emit(1, "s0")
    for index in range(40):
        run.offer(variant_task(f"v{index:02d}", "s0"), key, index)
    run.close_epoch()
    assert len(_injected(run)) == 29


@given(st.permutations([("s3", 0), ("s3", 1), ("s3", 10), ("s1", 0), ("s2", 0)]))
def test_within_an_epoch_the_order_is_the_seeds_order_not_that_of_arrival(arrivals):
    run = _run(injection_fraction=1.0)
    keys = {"s3": run.emit(1, "s3"), "s2": run.emit(2, "s2"), "s1": run.emit(12, "s1")}
    for root, index in arrivals:
        run.offer(variant_task(f"{'zyx'[index % 3]}-{root}-{index}", root), keys[root], index)
    run.close_epoch()
    assert _injected(run) == ["z-s3-0", "y-s3-1", "y-s3-10", "z-s2-0", "z-s1-0"]


def test_earlier_epochs_go_first_and_the_rest_waits():
    run = _run(injection_fraction=0.1)
    early, late = run.emit(1, "s0"), run.emit(2, "s9")
    run.offer(variant_task("from-late-seed", "s9"), late)
    run.close_epoch()
    run.open_epoch()  # takes one: from-late-seed
    run.offer(variant_task("first", "s0"), early, 5)
    run.offer(variant_task("second", "s9", "other"), late, 1)
    run.close_epoch()
    assert _injected(run) == ["first"]
    run.open_epoch()
    run.offer(variant_task("third", "s0"), early, 6)
    run.close_epoch()
    assert _injected(run) == ["second"]


def test_order_of_an_epoch_is_a_shuffle_fixed_by_seed_epoch_and_ids():
    run = _run()
    order = pool.epoch_order(run.state, seed=1, epoch=1)
    again = pool.epoch_order(Run(TEN[::-1]).state, seed=1, epoch=1)
    assert order == again
    assert sorted(order) == list(pool.active(run.state)) == sorted(task.id for task in TEN)
    others = {pool.epoch_order(run.state, seed, epoch) for seed in (1, 2, 3) for epoch in (1, 2, 3)}
    assert len(others) == 9


def test_an_admitted_variant_is_described_by_its_event():
    run = _run()
    key = run.emit(1, "s0")
    task = variant_task("v", "s0")
    event = run.offer(task, key, 3)
    assert event == VariantArrived(1, 1, "v", "s0", task.type, "family", key, 3, task.content_id())


def _reason(run: Run, task, key: str) -> str:
    event = run.offer(task, key)
    assert isinstance(event, VariantRefused)
    assert (event.task_id, event.key) == (task.id, key)
    return event.reason


def test_content_known_in_any_state_is_refused():
    run = _run(injection_fraction=0.1)
    key = run.emit(1, "s0")
    of_a_seed = replace(TEN[4], id="copy", origin=Origin.VARIANT, seed_id="s0", provenance={"attempts": 1})
    assert _reason(run, of_a_seed, key) == "duplicate_content"
    run.offer(variant_task("v1", "s0", "x"), key, 0)
    run.offer(variant_task("v2", "s0", "y"), key, 1)
    assert _reason(run, variant_task("w1", "s0", "x"), key) == "duplicate_content"
    run.close_epoch()
    run.open_epoch()
    assert [run.state.tasks[name].status for name in ("v1", "v2")] == ["active", "waiting"]
    assert _reason(run, variant_task("w1", "s0", "x"), key) == "duplicate_content"
    assert _reason(run, variant_task("w2", "s0", "y"), key) == "duplicate_content"
    run.take(_retire(run, "v1"))
    assert _reason(run, variant_task("w1", "s0", "x"), key) == "duplicate_content"
    assert _reason(run, variant_task("v1", "s0", "fresh"), key) == "duplicate_id"
    assert dict(run.state.refused) == {"duplicate_content": 5, "duplicate_id": 1}


def _retire(run: Run, name: str):
    observed = run.observe(run.state.step + 1, {name: (0.0, 0.0)})
    return retirement.after_step(run.state, observed, run.state.step, run.state.epoch)


def test_strangers_are_refused_with_a_reason():
    run = _run()
    key = run.emit(1, "s0")
    assert _reason(run, variant_task("v", "s0"), "000001-s7") == "unknown_seed_request"
    assert _reason(run, variant_task("v", "s7"), key) == "wrong_root_seed"
    assert _reason(run, seed_task("v"), key) == "not_a_variant"
    run.close_seed(key, SeedOutcome.DROPPED)
    assert _reason(run, variant_task("v", "s0"), key) == "seed_request_closed"


def test_a_late_answer_to_an_expired_request_is_welcome():
    run = _run()
    key = run.emit(1, "s0")
    run.close_seed(key, SeedOutcome.EXPIRED)
    assert isinstance(run.offer(variant_task("v", "s0"), key), VariantArrived)
    run.close_seed(key, SeedOutcome.PUBLISHED)
    assert run.state.requests[key].outcome is SeedOutcome.PUBLISHED


def test_a_static_pool_refuses_everything():
    run = _run(capacity=0)
    key = run.emit(1, "s0")
    assert _reason(run, variant_task("v", "s0"), key) == "static_pool"
