"""Retirement layer by layer, at and beside each border; originals always stay."""

import pytest
from curriculum_examples import Run, run_with_variants

from rods.config import BufferConfig
from rods.curriculum import retirement
from rods.curriculum.errors import CurriculumError
from rods.curriculum.events import GroupObserved, TaskRetired

OPEN = {"injection_fraction": 1.0}
MEAN = {
    0.0: (0.0,) * 4,
    0.2: (0.2,) * 4,
    0.5: (1.0, 0.0),
    0.75: (1, 1, 1, 0),
    0.95: (0.95,) * 4,
    1.0: (1.0,) * 4,
}


def _after(run: Run, step: int, rewards: dict[str, tuple[float, ...]]) -> list[tuple[str, str]]:
    observed = run.observe(step, rewards)
    events = retirement.after_step(run.state, observed, step, run.state.epoch)
    run.take(events)
    return [(event.task_id, event.reason.value) for event in events]


def _epoch_end(run: Run) -> dict[str, str]:
    events = retirement.at_epoch_end(run.state, run.state.step, run.state.epoch)
    run.take(events)
    return {event.task_id: event.reason.value for event in events}


def _next_epoch(run: Run) -> None:
    run.close_epoch()
    run.open_epoch()


@pytest.mark.parametrize(("mean", "retired"), [(0.0, True), (0.2, False), (0.5, False), (1.0, False)])
def test_burn_in_drops_only_what_is_below_the_boundary(mean, retired):
    run = run_with_variants(["v"], BufferConfig(**OPEN))
    assert _after(run, 2, {"v": MEAN[mean]}) == ([("v", "burn_in")] if retired else [])


@pytest.mark.parametrize(
    ("mean", "reason"),
    [(0.0, "drift_hard"), (0.2, None), (0.5, None), (0.95, None), (1.0, "drift_mastered")],
)
def test_drift_begins_after_burn_in(mean, reason):
    run = run_with_variants(["v"], BufferConfig(**OPEN, burn_in=2))
    assert _after(run, 2, {"v": MEAN[1.0]}) == []
    assert _after(run, 3, {"v": MEAN[1.0]}) == []
    assert _after(run, 4, {"v": MEAN[mean]}) == ([("v", reason)] if reason else [])


def test_without_burn_in_the_first_observation_may_drift():
    run = run_with_variants(["v", "w"], BufferConfig(**OPEN, burn_in=0))
    assert _after(run, 2, {"v": MEAN[0.0], "w": MEAN[1.0]}) == [("v", "drift_hard"), ("w", "drift_mastered")]


def test_originals_are_never_retired():
    run = run_with_variants([], BufferConfig(capacity=1, burn_in=1, stale_epochs=1))
    for step in (2, 3, 4):
        assert _after(run, step, {"a": MEAN[0.0], "b": MEAN[1.0]}) == []
    assert _epoch_end(run) == {}


def test_capacity_keeps_the_highest_phi_and_counts_the_unobserved_as_best():
    run = run_with_variants(["low", "mid", "top", "new"], BufferConfig(**OPEN, capacity=2))
    assert _after(run, 2, {"low": MEAN[0.95], "mid": MEAN[0.75], "top": MEAN[0.5]}) == []
    assert _epoch_end(run) == {"low": "capacity", "mid": "capacity"}
    assert _epoch_end(run) == {}


def test_ties_at_capacity_keep_the_smaller_id():
    run = run_with_variants(["y", "x", "z"], BufferConfig(**OPEN, capacity=1))
    _after(run, 2, {"z": MEAN[0.5], "x": MEAN[0.5], "y": MEAN[0.5]})
    assert _epoch_end(run) == {"y": "capacity", "z": "capacity"}


def test_a_variant_unsampled_for_the_window_is_stale():
    run = run_with_variants(["sampled", "never"], BufferConfig(**OPEN, stale_epochs=2))
    _after(run, 2, {"sampled": MEAN[0.5]})
    assert _epoch_end(run) == {}  # epoch 2: never has missed one
    _next_epoch(run)
    assert _epoch_end(run) == {"never": "stale"}  # epoch 3: sampled has missed one
    _next_epoch(run)
    (event,) = retirement.at_epoch_end(run.state, run.state.step, run.state.epoch)
    assert (event.task_id, event.reason.value, event.mean) == ("sampled", "stale", 0.5)


def test_stale_ones_do_not_use_up_capacity():
    run = run_with_variants(["old", "kept"], BufferConfig(**OPEN, stale_epochs=1, capacity=1))
    _after(run, 2, {"kept": MEAN[0.75]})
    assert _epoch_end(run) == {"old": "stale"}


def test_without_retirement_only_capacity_remains():
    run = run_with_variants(["v", "w"], BufferConfig(**OPEN, retire=False, stale_epochs=1, capacity=1))
    assert _after(run, 2, {"v": MEAN[0.0]}) == []
    assert _after(run, 3, {"v": MEAN[1.0]}) == []
    _next_epoch(run)
    _next_epoch(run)
    assert _epoch_end(run) == {"v": "capacity"}


def test_retired_is_final_and_carries_the_last_mean():
    run = run_with_variants(["v"], BufferConfig(**OPEN))
    observed = run.observe(2, {"v": MEAN[0.0]})
    (event,) = retirement.after_step(run.state, observed, 2, 2)
    assert event == TaskRetired(2, 2, "v", event.reason, 0.0)
    run.take([event])
    assert retirement.after_step(run.state, observed, 2, 2) == []
    assert run.state.tasks["v"].reason == "burn_in"


def test_deciding_before_the_groups_are_applied_is_refused():
    run = run_with_variants(["v"], BufferConfig(**OPEN))
    with pytest.raises(CurriculumError, match="fold the observations first"):
        retirement.after_step(run.state, [GroupObserved(2, 2, "v", (0.0,))], 2, 2)
