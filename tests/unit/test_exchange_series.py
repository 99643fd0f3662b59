"""A daemon in a Slurm job of its own starts and stops apart from the trainer, and ends with the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from rods.exchange import replica, stop
from rods.exchange.attempt import Fence, OvertakenError
from rods.exchange.replica import ReplicaError
from rods.exchange.rundir import NotARunDirError, RunDir


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    made = RunDir.create(tmp_path, "x", "0" * 64)
    made.next_attempt()
    return made


@pytest.fixture
def apart(run: RunDir) -> RunDir:
    found = replica.open_run(run.path, {"RODS_SERIES": "synthesis-1"})
    found.next_attempt()
    return found


def test_without_a_series_the_attempts_are_the_runs(run: RunDir) -> None:
    for environment in ({}, {"RODS_SERIES": ""}):
        assert replica.open_run(run.path, environment) == run


def test_starts_are_counted_apart(run: RunDir, apart: RunDir) -> None:
    assert apart.next_attempt() == 2
    assert run.last_attempt() == 1
    assert apart.attempt_dir(2) == run.path / "attempts" / "synthesis-1" / "0002"
    assert apart.whole == run


def test_neither_overtakes_the_other(run: RunDir, apart: RunDir) -> None:
    trainer, daemon = Fence(run, 1), Fence(apart, 1)
    run.next_attempt()
    daemon.check()
    with pytest.raises(OvertakenError):
        trainer.check()
    apart.next_attempt()
    Fence(run, 2).check()
    with pytest.raises(OvertakenError):
        daemon.check()


def test_a_trainer_that_stops_for_a_while_does_not_stop_the_daemon(run: RunDir, apart: RunDir) -> None:
    stop.request(run, 1, "the time limit is near")
    assert stop.is_requested(run, 1)
    assert not stop.is_requested(apart, 1)


def test_a_daemon_that_stops_does_not_stop_the_trainer(run: RunDir, apart: RunDir) -> None:
    stop.request(apart, 1, "no trainer")
    assert stop.is_requested(apart, 1)
    assert not stop.is_requested(run, 1)
    stop.clear_stale(apart, 2)
    assert not stop.is_requested(apart, 1)


def test_the_runs_end_and_a_persons_stop_file_end_the_daemon_too(run: RunDir, apart: RunDir) -> None:
    run.stop_file.touch()
    assert stop.is_requested(apart, 1)
    assert not stop.is_finished(apart)
    run.stop_file.unlink()
    stop.finish(run, 1)
    assert stop.is_requested(apart, 7)
    assert stop.is_finished(apart)


def test_a_daemons_new_start_does_not_remove_the_runs_stop_file(run: RunDir, apart: RunDir) -> None:
    stop.finish(run, 1)
    stop.clear_stale(apart, 9)
    assert stop.is_finished(run)


@pytest.mark.parametrize("series", ["../x", "a/b", "0001", ".", "a b", "a\n", "-x"])
def test_what_cannot_be_a_series_is_refused(run: RunDir, series: str) -> None:
    with pytest.raises(ReplicaError, match="RODS_SERIES: expected"):
        replica.open_run(run.path, {"RODS_SERIES": series})


def test_no_run_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotARunDirError):
        replica.open_run(tmp_path, {"RODS_SERIES": "synthesis"})
