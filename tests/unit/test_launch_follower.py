"""Following a submitted run: what the trainer wrote counts, Slurm's word where it could write nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from launchers.scheduler import JobInfo
from launchers.states import lookup
from rods.exchange import stop
from rods.exchange.rundir import RunDir
from rods.roles import outcome
from rods.roles.outcome import Outcome, Status
from rods.roles.slurm_follower import follow, judge


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    made = RunDir.create(tmp_path, "x", "0" * 64)
    made.next_attempt()
    return made


def jobs(*states: str, source: str = "squeue") -> dict[str, JobInfo]:
    """Jobs 5, 6, … in these states."""
    return {str(n): JobInfo(str(n), lookup(state), source) for n, state in enumerate(states, 5)}


@pytest.mark.parametrize(
    "state", ["PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "REQUEUED", "SUSPENDED"]
)
def test_a_job_that_lives_is_waited_on_whatever_an_attempt_said(run: RunDir, state: str) -> None:
    assert judge(run, jobs(state)) is None
    outcome.record(run, 1, Outcome(Status.failed, "an attempt's end"))
    assert judge(run, jobs(state)) is None
    assert judge(run, jobs("COMPLETED", state)) is None, "a chain's next job goes on"


@pytest.mark.parametrize("state", ["UNKNOWN", "", "SOME_NEW_STATE"])
def test_an_unknown_job_is_waited_on_until_its_trainer_has_spoken(run: RunDir, state: str) -> None:
    assert judge(run, jobs(state)) is None
    outcome.record(run, 1, Outcome(Status.requeued, "a preemption is near"))
    assert judge(run, jobs(state)) is None
    outcome.record(run, 1, Outcome(Status.failed, "no weights"))
    assert judge(run, jobs(state)) == Outcome(Status.failed, "no weights")


@pytest.mark.parametrize(
    ("state", "status", "word"),
    [
        ("COMPLETED", Status.stopped, "exit status 0"),
        ("CANCELLED by 1000", Status.stopped, "cancelled"),
        ("CANCELLED+", Status.stopped, "cancelled"),
        ("FAILED", Status.failed, "exit status"),
        ("TIMEOUT", Status.failed, "cluster.signal_seconds"),
        ("OUT_OF_MEMORY", Status.failed, "mem_gb"),
        ("BOOT_FAIL", Status.failed, "rods resume"),
    ],
)
def test_slurm_speaks_for_a_trainer_that_wrote_nothing(
    run: RunDir, state: str, status: Status, word: str
) -> None:
    for _ in range(2):
        ended = judge(run, jobs(state))
        assert ended is not None
        assert (ended.status, word in ended.sentence, "job 5" in ended.sentence) == (status, True, True)
        # So does it for one that was to be started again, and was not.
        outcome.record(run, 1, Outcome(Status.requeued, "a preemption is near"))


@pytest.mark.parametrize("state", ["PREEMPTED", "NODE_FAIL"])
def test_what_slurm_requeues_is_waited_on_while_the_controller_knows_it(run: RunDir, state: str) -> None:
    assert judge(run, jobs(state)) is None
    ended = judge(run, jobs(state, source="sacct"))
    assert ended is not None
    assert ended.status is Status.failed


def test_what_the_trainer_recorded_counts_once_all_is_over(run: RunDir) -> None:
    outcome.record(run, 1, Outcome(Status.stopped, "STOP was made by hand"))
    assert judge(run, jobs("COMPLETED")) == Outcome(Status.stopped, "STOP was made by hand")


def test_a_finished_run_has_finished_whatever_slurm_says(run: RunDir) -> None:
    stop.finish(run, 1)
    for state in ("", "RUNNING", "FAILED"):
        assert judge(run, jobs(state)) == Outcome(Status.finished, "the run finished")


class Slurm:
    """A scheduler that answers one state after another."""

    def __init__(self, *states: str) -> None:
        self.states, self.asked = list(states), list[list[str]]()

    def query(self, ids: Iterable[str]) -> Mapping[str, JobInfo]:
        self.asked.append(list(ids))
        return jobs(self.states.pop(0) if len(self.states) > 1 else self.states[0])


def test_following_ends_with_the_run_and_shows_it_meanwhile(run: RunDir) -> None:
    slurm, ticks, naps = Slurm("", "PENDING", "RUNNING", "OUT_OF_MEMORY"), [], []
    ended = follow(run, ["5"], lambda: ticks.append(1), query=slurm.query, sleep=naps.append)
    assert ended.status is Status.failed
    assert slurm.asked == [["5"]] * 4
    assert len(ticks) == len(naps) == 3
    assert outcome.read(run, 1) == ended, "rods status is to show it"


def test_ctrl_c_ends_only_the_following(run: RunDir) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    ended = follow(run, ["5"], lambda: None, query=Slurm("RUNNING").query, sleep=interrupt)
    assert ended.status is Status.interrupted
    assert "goes on" in ended.sentence
    assert outcome.read(run, 1) is None


def test_a_view_that_fails_ends_no_following(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    def tick() -> None:
        raise KeyError("zones")

    ended = follow(run, ["5"], tick, query=Slurm("RUNNING", "FAILED").query, sleep=lambda _: None)
    assert ended.status is Status.failed
    assert "the progress view failed" in capsys.readouterr().err
