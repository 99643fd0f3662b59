"""What was tried before the study: read with its settings, never from a seed that is reported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from study_examples import point, summary

from benchmarks.study import __main__ as command
from benchmarks.study import figures, page, plan, sections, trials, world
from benchmarks.study import summary as summaries
from benchmarks.study.arms import get
from benchmarks.study.driver import Driver
from benchmarks.study.summary import Stretch
from benchmarks.study.trials import Trial, TrialError


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here makes a run: one that would take minutes fails."""

    def run(_: Driver, sites: Sequence[object]) -> int:
        assert not sites
        return 0

    monkeypatch.setattr(Driver, "run", run)


def trial(folder: Path, seed: int, told: str = "12 seed tasks") -> Path:
    own = folder / "twelve"
    summaries.write(own, summary("rods", seed))
    if told:
        (own / trials.SETTINGS).write_text(told + "\n")
    return folder


def test_a_trial_comes_with_its_settings_and_where_it_went(tmp_path: Path) -> None:
    (found,) = trials.read(trial(tmp_path, world.TUNING[0]))
    assert (found.name, found.settings, found.run.seed) == ("twelve", "12 seed tasks", world.TUNING[0])
    assert (
        "| twelve | RODS | 100 | 192 | 2 | 192 | 0.400 → 0.600 | 0.500 → 0.700 | 0.500 | 0.600 | 0.50 → 0.90 | 0.40 |"
        in sections.trials([found])
    )


PAIR = (("static", 0.2), ("rods", 0.4))


def pair(name: str, settings: str, seeds: Sequence[int], gains: Sequence[tuple[str, float]]) -> list[Trial]:
    return [Trial(name, settings, summary(arm, seed, gain)) for seed in seeds for arm, gain in gains]


def test_rods_and_the_static_pool_are_paired_within_a_trial_and_over_those_by_equal_settings() -> None:
    told = [
        *pair("twice", "x=2", (100, 101), PAIR),
        *pair("again", "x=2", (5,), (("static", 0.1), ("rods", 0.6))),
        *pair("once", "x=1", (100,), PAIR[1:]),
    ]
    first, again, both = sections.tried(told).splitlines()[2:]
    assert first.startswith("| twice | 2 | +0.100 [")
    assert first.endswith("| +0.100 | +0.100 | +0.200 | +0.200 |")
    assert again.startswith("| again | 1 | +0.250")
    assert both.startswith("| twice and again | 3 | +0.150 [")


def test_trials_of_enough_seeds_are_drawn() -> None:
    told = [*pair("three", "x", (100, 101, 102), PAIR), *pair("two", "y", (100, 101), PAIR)]
    told += [*pair("alone", "z", (100, 101, 102), PAIR[1:])]
    found = page.pairs(told)
    assert list(found) == ["three"]
    assert [(each.arm.name, sorted(each.runs)) for each in found["three"]] == [
        ("static", [100, 101, 102]),
        ("rods", [100, 101, 102]),
    ]


def test_what_was_tried_on_a_reported_seed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrialError, match=f"found {world.REPORTED[0]};"):
        trials.read(trial(tmp_path, world.REPORTED[0]))


def test_a_trial_says_by_what_settings_it_was_run(tmp_path: Path) -> None:
    with pytest.raises(TrialError, match=r"settings\.txt"):
        trials.read(trial(tmp_path, world.TUNING[0], told=""))


def test_a_seed_whose_tasks_may_be_held_out_is_no_trial(tmp_path: Path) -> None:
    with pytest.raises(TrialError, match="found 104, 105;"):
        trials.begin(tmp_path / "x", "s", [world.TUNING[-1], world.TUNING[-1] + 1])
    assert not (tmp_path / "x").exists()


def test_what_was_found_is_checked_on_other_seeds_than_it_was_found_on(tmp_path: Path) -> None:
    trials.begin(tmp_path / "again", "s", world.CHECKING)
    with pytest.raises(TrialError, match="found 104, 5;"):
        trials.begin(tmp_path / "x", "s", [world.TUNING[-1], world.CHECKING[0]])
    with pytest.raises(TrialError, match="found 5, 100;"):
        trials.begin(trial(tmp_path, world.TUNING[0]) / "twelve", "12 seed tasks", world.CHECKING[:1])


def test_settings_that_are_tried_win_over_those_of_arm_and_study() -> None:
    tried = trials.under(get("rods"), ["buffer.capacity=7", "training.trajectories=96"])
    config = plan.composed(tried)
    assert (config.buffer.capacity, config.training.trajectories) == (7, 96)
    assert plan.identity(tried, 100) != plan.identity(get("rods"), 100)
    assert plan.identity(trials.under(get("rods"), []), 100) == plan.identity(get("rods"), 100)


def test_a_trial_of_the_repository_is_not_made_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (settings,) = (
        each.settings
        for each in trials.read(trials.TRIALS)
        if each.run.arm == "rods" and each.run.seed == 101
    )
    words = ["three_times", "--seeds", "100-102", "--arms", "rods,static", "--dir", str(tmp_path)]
    assert command.main(["try", *words, "--settings", *settings.split()]) == 0
    assert "0 runs to make" in capsys.readouterr().out


def test_one_trial_has_one_kind_of_settings(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trial(tmp_path, world.TUNING[0], "buffer.capacity=7")
    words = ["twelve", "--arms", "static", "--results", str(tmp_path), "--settings", "buffer.capacity=8"]
    assert command.main(["try", *words]) == 2
    said = capsys.readouterr().err
    assert "expected 'buffer.capacity=8', found 'buffer.capacity=7'" in said
    assert "another name" in said


def test_a_name_is_free_until_a_run_has_come_to_its_end(tmp_path: Path) -> None:
    trials.begin(tmp_path, "a=1", world.TUNING)
    trials.begin(tmp_path, "a=2", world.TUNING)
    summaries.write(tmp_path, summary("rods", world.TUNING[0]))
    trials.begin(tmp_path, "a=2", world.TUNING)
    with pytest.raises(TrialError, match="expected 'a=3', found 'a=2'"):
        trials.begin(tmp_path, "a=3", world.TUNING)


def test_the_order_of_settings_makes_no_other_trial_and_other_settings_have_runs_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Path] = []
    monkeypatch.setattr(command, "Site", lambda folder, results, job: begun.append(folder))
    monkeypatch.setattr(Driver, "run", lambda self, sites: 0)
    for results, settings in (("a", ["x=1", "x=2"]), ("a", ["x=2", "x=1"]), ("b", ["x=1"])):
        given = [text.replace("x=1", "seed=1").replace("x=2", "buffer.capacity=7") for text in settings]
        words = ["mine", "--arms", "static", "--seeds", "100", "--results", str(tmp_path / results)]
        assert command.main(["try", *words, "--dir", str(tmp_path), "--settings", *given]) == 0
    first, second, other = begun
    assert first == second != other


@pytest.mark.parametrize("settings", ["buffer.size=8", "buffer.capacity=-1", "nothing"])
def test_settings_that_are_none_leave_no_trial_behind(
    settings: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["new", "--arms", "static", "--results", str(tmp_path), "--settings", settings]
    assert command.main(["try", *words]) == 2
    assert capsys.readouterr().err.startswith("study: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["../x", "", ".x", "a/b"])
def test_a_trial_is_one_folder(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["try", name, "--arms", "static"])
    assert "argument name" in capsys.readouterr().err


def test_a_seed_that_is_given_twice_is_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert command.main(["status", "--arms", "static", "--seeds", "1,0,1", "--results", str(tmp_path)]) == 0
    assert capsys.readouterr().out.split() == ["static", "1:missing", "0:missing"]


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
