"""Stages in the fold: which tasks take part, what is forgotten, and when a stage is over."""

from __future__ import annotations

import pytest

from rods.config import BufferConfig
from rods.config.stages import StageConfig
from rods.curriculum import pool
from rods.curriculum.errors import ImpossibleEventError
from rods.curriculum.events import StageStarted
from rods.curriculum.stages import ending
from rods.curriculum.state import CurriculumState, replay
from rods.curriculum.statistics import UNOBSERVED
from rods.curriculum.summary import summary
from rods.tasks.model import TaskType
from tests.unit.curriculum_examples import Run, run_with_variants, seed_task, variant_task

SEEDS = [seed_task("b1"), seed_task("b2"), seed_task("m", TaskType.MISS_FUNC)]


def begin(run: Run, number: int, reward: str = "progress", types: tuple[TaskType, ...] = ()) -> None:
    run.take(
        [StageStarted(run.state.step, run.state.epoch, number, f"stage {number}", types, reward, "epochs")]
    )


def staged(reward: str = "progress", types: tuple[TaskType, ...] = ()) -> Run:
    run = Run(SEEDS)
    begin(run, 1, reward, types)
    return run


def epoch(run: Run, *means: float) -> None:
    """An epoch of one step for each mean, all of the task b1."""
    run.open_epoch()
    for mean in means:
        run.observe(run.state.step + 1, {"b1": (mean, mean)})
    run.close_epoch()


def test_tasks_of_other_types_rest_and_are_back_in_the_next_stage():
    run = staged(types=(TaskType.BASE,))
    assert pool.active(run.state) == ("b1", "b2")
    assert summary(run.state)["active_seeds"] == pool.active_count(run.state) == 2
    run.open_epoch()
    with pytest.raises(ImpossibleEventError, match="resting"):
        run.observe(1, {"m": (1.0, 0.0)})
    run.close_epoch()
    begin(run, 2)
    assert pool.active(run.state) == ("b1", "b2", "m")


def test_what_another_reward_showed_is_forgotten_everywhere():
    run = staged("format")
    epoch(run, 2.0)
    assert run.state.tasks["b1"].statistics.mean == 2.0
    begin(run, 2, "progress")
    assert all(record.statistics == UNOBSERVED for record in run.state.tasks.values())
    assert summary(run.state)["unobserved"] == 3


def test_what_the_same_reward_showed_is_kept():
    run = staged()
    epoch(run, 0.5)
    begin(run, 2)
    assert run.state.tasks["b1"].statistics.history == ((1, 0.5),)


def test_variants_take_part_in_every_stage():
    run = run_with_variants(["v"], BufferConfig())
    run.close_epoch()
    begin(run, 1, types=(TaskType.MISS_FUNC,))
    assert pool.active(run.state) == ("v",)


def test_a_variant_that_waits_enters_the_next_stage():
    run = Run([seed_task(name) for name in "abcde"])
    begin(run, 1)
    run.open_epoch()
    key = run.emit(1, "a")
    run.offer(variant_task("v", "a"), key)
    run.close_seed(key)
    run.close_epoch()
    begin(run, 2)
    run.open_epoch()
    assert "v" in pool.active(run.state)


@pytest.mark.parametrize("number", [0, 1, 3])
def test_stages_come_in_their_order(number):
    run = staged()
    with pytest.raises(ImpossibleEventError, match="stage 2"):
        begin(run, number)


def test_a_stage_cannot_begin_within_an_epoch():
    run = staged()
    run.open_epoch()
    with pytest.raises(ImpossibleEventError, match="finished first"):
        begin(run, 2)


def test_a_state_with_a_stage_survives_as_bytes_and_is_what_the_replay_gives():
    run = staged("format", (TaskType.BASE,))
    epoch(run, 1.5, 0.1)
    restored = CurriculumState.from_bytes(b"".join(run.state.pieces()))
    assert restored == run.state
    assert restored.digest() == run.state.digest()
    again = replay(SEEDS, run.state.boundary, run.state.buffer, run.events)
    assert again.digest() == run.state.digest()
    assert run.state.digest() != run.start.digest()


def test_a_stage_ends_with_its_last_epoch_counted_from_its_own_start():
    stage = StageConfig(epochs=2)
    run = staged()
    assert ending(run.state, stage) == ""
    epoch(run, 0.5)
    assert ending(run.state, stage) == ""
    epoch(run, 0.5)
    assert ending(run.state, stage) == "epochs"
    begin(run, 2)
    assert ending(run.state, stage) == ""
    epoch(run, 0.5)
    assert ending(run.state, stage) == ""


def test_a_target_is_asked_of_the_latest_steps_of_the_stage_only():
    stage = StageConfig(epochs=9, target_reward=0.75, target_steps=3)
    run = staged()
    epoch(run, 1.0, 1.0)
    assert ending(run.state, stage) == ""  # too few steps
    epoch(run, 0.25)
    assert ending(run.state, stage) == "target"  # (1 + 1 + 0.25) / 3 = 0.75
    epoch(run, 0.0, 0.0)
    assert ending(run.state, stage) == ""
    epoch(run, 1.0, 1.0, 1.0)
    assert ending(run.state, stage) == "target"  # of all steps the mean is 0.66
    begin(run, 2)
    epoch(run, 1.0)
    assert ending(run.state, stage) == ""


def test_a_step_counts_by_its_groups():
    run = staged()
    run.open_epoch()
    run.observe(1, {"b1": (1.0, 1.0), "b2": (1.0, 1.0), "m": (1.0, 1.0)})
    run.observe(2, {"b1": (0.0, 0.0)})
    run.close_epoch()
    assert ending(run.state, StageConfig(target_reward=0.75, target_steps=2)) == "target"
    assert ending(run.state, StageConfig(target_reward=0.76, target_steps=2)) == ""


def test_patience_counts_the_epochs_since_the_best_one():
    stage = StageConfig(epochs=9, patience=2)
    run = staged()
    endings = []
    for mean in (0.5, 0.4, 0.6, 0.6, 0.5):
        epoch(run, mean)
        endings.append(ending(run.state, stage))
    assert endings == ["", "", "", "", "patience"]
