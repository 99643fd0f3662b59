"""What the training role tells people: a line for each thing that happened, none for what the step's line says."""

from __future__ import annotations

import re

import pytest

from rods.roles.diary import Diary

STEP = {"step": 3, "steps_total": 5, "epoch": 2, "reward_mean": 0.26388, "seconds": 8.57}
UPDATE = {
    "zero_variance": 0.25,
    "entropy": 0.1804,
    "kl": 0.01243,
    "clip_fraction": 0.0021,
    "logprob_gap": 4e-7,
}
HELD_OUT = {"event": "evaluation", "split": "heldout", "step": 3, "mode": "greedy", "mean": 0.5, "count": 48}
VALIDATION = {**HELD_OUT, "split": "validation", "count": 24}
EPOCH = {"event": "epoch", "step": 3, "epoch": 2}


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines without their times and the role."""
    lines = capsys.readouterr().err.splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d train: ", line) for line in lines)
    return [line[27:] for line in lines]


def test_a_step_an_evaluation_and_an_epoch_are_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    for record in (STEP, HELD_OUT, VALIDATION, EPOCH):
        Diary().record(record)
    assert said(capsys) == [
        "step 3 of 5, epoch 2, reward 0.264, 8.6 s",
        "held out, greedy: 0.500 over 48 tasks (step 3)",
        "validation, greedy: 0.500 over 24 tasks (step 3)",
        "epoch 2 is over (step 3)",
    ]


def test_a_total_that_may_change_is_not_told_as_one_that_will_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for step in (3, 5):
        Diary().record({**STEP, "step": step, "steps_estimated": True})
    assert [line.split(",")[0] for line in said(capsys)] == ["step 3 of ~5", "step 5 of 5"]


def test_a_step_tells_what_shows_that_something_goes_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    Diary().record({**STEP, **UPDATE, "generated_tokens_per_second": 2184.1})
    assert said(capsys) == [
        "step 3 of 5, epoch 2, reward 0.264, zero variance 25%, entropy 0.180, kl 0.0124, clipped 0.2%, "
        "engine gap 4.0e-07, tokens/s 2184, 8.6 s"
    ]


def test_loading_and_checkpoints_are_told_and_the_phases_of_a_step_are_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    diary = Diary()
    diary.phase("loading", None)
    for phase in ("starting", "rollout", "update", "checkpoint"):
        diary.phase(phase, 4)
    assert said(capsys) == [
        "loading the tasks, the model and the engine",
        "model and engine are loaded (step 4)",
        "writing a checkpoint (step 4)",
    ]


@pytest.mark.parametrize(
    ("finished", "sentence"), [(True, "finished after step 7"), (False, "stopped after step 7, as asked")]
)
def test_the_end_says_how_far_it_came(
    finished: bool, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    diary = Diary()
    diary.phase("rollout", 7)
    diary.end(finished)
    assert said(capsys) == [sentence]


def test_a_run_that_was_finished_before_is_not_said_to_have_no_step(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Diary().end(finished=True)
    assert said(capsys) == ["finished"]
