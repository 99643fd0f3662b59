"""What was tried before the study: read with its settings, never from a seed that is reported."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from study_examples import point, summary

from benchmarks.study import figures, sections, trials, world
from benchmarks.study import summary as summaries
from benchmarks.study.summary import Stretch
from benchmarks.study.trials import Trial, TrialError


def trial(folder: Path, seed: int, told: str = "12 seed tasks") -> Path:
    own = folder / "twelve"
    summaries.write(own, summary("rods", seed))
    if told:
        (own / trials.SETTINGS).write_text(told + "\n")
    return folder


def test_a_trial_comes_with_its_settings_and_where_it_went(tmp_path: Path) -> None:
    (found,) = trials.read(trial(tmp_path, world.TUNING[0]))
    assert (found.settings, found.run.seed) == ("12 seed tasks", world.TUNING[0])
    assert (
        "| RODS | 100 | 192 | 0.400 → 0.600 | 0.500 → 0.700 | 0.500 | 0.600 | 0.50 → 0.90 | 0.40 |"
        in sections.trials([found])
    )


def test_rods_and_the_static_pool_are_paired_under_equal_settings() -> None:
    pair = (("static", 0.2), ("rods", 0.4))
    told = [Trial("twice", summary(arm, seed, gain)) for seed in (100, 101) for arm, gain in pair]
    alone = Trial("once", summary("rods", 100, 0.9))
    (row,) = sections.tried([*told, alone]).splitlines()[2:]
    assert row.startswith("| twice | 2 | +0.100 [")
    assert row.endswith("| +0.100 | +0.100 |")


def test_what_was_tried_on_a_reported_seed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrialError, match=f"found seed {world.REPORTED[0]}"):
        trials.read(trial(tmp_path, world.REPORTED[0]))


def test_a_trial_says_by_what_settings_it_was_run(tmp_path: Path) -> None:
    with pytest.raises(TrialError, match=r"settings\.txt"):
        trials.read(trial(tmp_path, world.TUNING[0], told=""))


def test_those_of_the_repository_are_sound() -> None:
    assert trials.read(trials.TRIALS)


def test_what_was_trained_on_for_a_step_or_two_says_nothing() -> None:
    whole = summary()
    curve = [point(96 * step, 0.4, 0.5) for step in (0, 6, 12, 24, 25, 31)]
    rows = [
        Stretch(step, 0.5, 0.3, 0.0, 0.5) for step in (12, 24, 25, 31)
    ]  # up to 6 only the format was rewarded
    mechanism = msgspec.structs.replace(whole.mechanism, trained=rows)
    run = msgspec.structs.replace(whole, curve=curve, mechanism=mechanism)
    assert [row.step for row in figures.stretches(run)] == [12, 24, 31]
