"""A job that a person submitted from a run's batch file is one of the run's, although nobody listed it."""

from __future__ import annotations

from pathlib import Path

import pytest
from slurm_answers import FakeSlurm
from watch_examples import submitted

from launchers import queued, started, trainers
from launchers.errors import LaunchError
from launchers.scheduler import Scheduler
from rods.exchange.rundir import RunDir
from rods.watch.state import read_state


def begun(run: RunDir, place: str, text: str) -> None:
    """A start as a batch script notes it in attempts/<place>."""
    folder = run.attempts / place
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "start").write_text(text)


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """A run with three listed jobs: both roles, and two further daemons."""
    run = RunDir.create(tmp_path, "started", "0" * 64)
    submitted(run, "1", "train", "synthesis")
    for job, replica in (("20", 1), ("21", 2)):
        submitted(run, job, "synthesis", coschedule="pair", replica=replica)
    return run


def test_listed_jobs_are_not_listed_twice(run: RunDir) -> None:
    begun(run, "0001", "1.0\n")
    begun(run, "0002", "1.1\n")
    begun(run, "synthesis-1/0001", "20.0\n")
    assert [job.job_id for job in started.of_run(run)] == ["1", "20", "21"]


def test_an_unlisted_job_is_like_the_newest_listed_one_of_its_kind(run: RunDir) -> None:
    begun(run, "0003", "5.0\n")
    begun(run, "synthesis-1/0002", "30.0\n")
    trainer, daemon = started.of_run(run)[3:]
    assert (trainer.job_id, trainer.roles, trainer.attempt) == ("5", ("train", "synthesis"), 3)
    assert trainer.gpus == {"train": 8, "synthesis": 8}
    assert (daemon.job_id, daemon.roles, daemon.replica, daemon.attempt) == ("30", ("synthesis",), 1, 2)


def test_without_a_list_the_folder_says_what_it_is(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, "started", "0" * 64)
    begun(run, "0001", "5.0\n")
    begun(run, "synthesis/0001", "6.0\n")
    begun(run, "synthesis-2/0001", "7.0\n")
    found = [(job.job_id, job.roles, job.replica) for job in started.of_run(run)]
    assert found == [("5", ("train",), None), ("6", ("synthesis",), 0), ("7", ("synthesis",), 2)]


@pytest.mark.parametrize("text", [b"", b"local\n", b"5\n", b"../5.0\n", b"5.0\0\0", b"\xff5.0\n"])
def test_what_is_no_start_is_left_out(run: RunDir, text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(run, "0001", "")
    (run.attempt_dir(1) / "start").write_bytes(text)
    assert len(started.of_run(run)) == 3
    monkeypatch.setattr(trainers.scheduler, "query", Scheduler(FakeSlurm()).query)
    assert trainers.ask(run)[1] in ("", "1", "5")


def test_it_is_looked_at_and_guards_against_a_second_start_like_the_others(run: RunDir) -> None:
    begun(run, "0003", "5.0\n")
    slurm = Scheduler(FakeSlurm())
    assert read_state(run, slurm).jobs[3].job_id == "5"
    finished = RunDir.create(run.path.parent, "other", "0" * 64)
    begun(finished, "0001", "4.0\n")
    queued.check_none(finished, slurm)
    begun(finished, "0002", "5.0\n")
    with pytest.raises(LaunchError, match="found job 5"):
        queued.check_none(finished, slurm)
