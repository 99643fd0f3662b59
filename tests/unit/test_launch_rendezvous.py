"""Whether a trainer is there: by heartbeats of the newest start, and by Slurm's word before it is given up."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from launchers import jobs, scheduler
from launchers.jobs import START, SubmittedJob
from launchers.scheduler import JobInfo
from launchers.states import lookup
from launchers.trainers import Trainer, ask
from rods.exchange.heartbeat import Heartbeat
from rods.exchange.rundir import RunDir
from rods.roles.rendezvous import Absence, Watch, is_heard


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir.create(tmp_path, "x", "0" * 64)


def start(run: RunDir, age_s: float = 0.0) -> None:
    """As the batch file does at each start."""
    file = run.attempt_dir(run.next_attempt()) / START
    file.write_text("7.0\n")
    os.utime(file, (time.time() - age_s,) * 2)


def beat(run: RunDir, age_s: float = 0.0) -> None:
    Heartbeat(run.heartbeats, "train").beat("rollout")
    os.utime(run.heartbeats / "train.json", (time.time() - age_s,) * 2)


def test_a_trainer_that_beats_is_heard(run: RunDir) -> None:
    start(run, age_s=50)
    beat(run, age_s=20)
    assert is_heard(run, 30)
    assert not is_heard(run, 10)


def test_nobody_is_heard_before_a_first_start(run: RunDir) -> None:
    assert not is_heard(run, 30)
    beat(run)
    assert not is_heard(run, 30)


def test_a_beat_of_the_start_before_does_not_count(run: RunDir) -> None:
    start(run, age_s=90)
    beat(run, age_s=20)
    start(run, age_s=10)
    assert not is_heard(run, 30)


def test_a_beat_from_before_a_submission_does_not_count(run: RunDir) -> None:
    start(run, age_s=90)
    beat(run)
    run.next_attempt()  # as the submission makes it: no start yet
    assert not is_heard(run, 30)


def test_a_trainer_that_said_its_end_is_gone_at_once(run: RunDir) -> None:
    start(run, age_s=90)
    Heartbeat(run.heartbeats, "train").finish()
    assert not is_heard(run, 30)


def submit(run: RunDir, number: str, *roles: str) -> None:
    jobs.record(run, SubmittedJob(number, roles, "pair", 1, 0.0, {}))


@pytest.mark.parametrize(
    ("states", "answer"),
    [
        ({"1": "COMPLETED", "3": "RUNNING"}, (Trainer.running, "3")),
        ({"1": "COMPLETING", "3": "PENDING"}, (Trainer.running, "1")),
        ({"1": "COMPLETED", "3": "PENDING"}, (Trainer.waiting, "3")),
        ({"1": "FAILED", "3": "SOME_NEW_STATE"}, (Trainer.unknown, "3")),
        ({"1": "FAILED", "3": "CANCELLED by 0"}, (Trainer.over, "")),
    ],
)
def test_slurm_is_asked_of_all_the_runs_trainers(
    run: RunDir, monkeypatch: pytest.MonkeyPatch, states: dict[str, str], answer: tuple[Trainer, str]
) -> None:
    for number, role in (("1", "train"), ("2", "synthesis"), ("3", "train")):
        submit(run, number, role)
    asked: list[list[str]] = []

    def query(ids: list[str]) -> dict[str, JobInfo]:
        asked.append(ids)
        return {job: JobInfo(job, lookup(states[job])) for job in ids}

    monkeypatch.setattr(scheduler, "query", query)
    assert ask(run) == answer
    assert asked == [["1", "3"]]


@pytest.mark.parametrize(("content", "asked"), [("7.0\n", ["7"]), ("", []), ("$(x)", []), ("7;8.1", [])])
def test_a_trainer_that_was_submitted_by_hand_is_known_by_its_start(
    run: RunDir, monkeypatch: pytest.MonkeyPatch, content: str, asked: list[str]
) -> None:
    start(run)
    (run.attempt_dir(1) / START).write_text(content)
    monkeypatch.setattr(
        scheduler, "query", lambda ids: {job: JobInfo(job, lookup("RUNNING")) for job in ids if job in asked}
    )
    assert ask(run) == ((Trainer.running, "7") if asked else (Trainer.over, ""))


class Scene:
    """A watch whose trainer, scheduler and clock the test moves."""

    def __init__(self, run: RunDir, patience_s: float = 300.0) -> None:
        self.now, self.here, self.slurm = 0.0, True, (Trainer.waiting, "7")
        self.asked = 0
        self.watch = Watch(
            run,
            patience_s,
            lambda absence: None,
            heard=lambda _run, _silence: self.here,
            ask=self._ask,
            clock=lambda: self.now,
        )

    def _ask(self, _run: RunDir) -> tuple[Trainer, str]:
        self.asked += 1
        return self.slurm

    def after(self, seconds: float) -> Absence | None:
        self.now += seconds
        return self.watch.look()


def test_while_a_trainer_is_heard_slurm_is_not_asked(run: RunDir) -> None:
    scene = Scene(run)
    assert all(scene.after(1000) is None for _ in range(5))
    assert scene.asked == 0


def test_a_waiting_trainer_is_waited_for_until_the_deadline(run: RunDir) -> None:
    scene = Scene(run)
    scene.here = False
    assert scene.after(299) is None
    absence = scene.after(1)
    assert absence is not None
    assert absence.awaited == "7"
    assert "no trainer for 300 s (cluster.rendezvous_s = 300)" in absence.reason


def test_a_trainer_that_comes_back_starts_the_time_anew(run: RunDir) -> None:
    scene = Scene(run)
    scene.here = False
    assert scene.after(299) is None
    scene.here = True
    assert scene.after(1) is None
    scene.here = False
    assert scene.after(299) is None
    assert scene.after(1) is not None


def test_a_trainer_that_is_silent_at_its_work_is_not_left(run: RunDir) -> None:
    scene = Scene(run)
    scene.here, scene.slurm = False, (Trainer.running, "7")
    assert all(scene.after(200) is None for _ in range(10))


def test_silent_work_counts_as_presence(run: RunDir) -> None:
    scene = Scene(run)
    scene.here, scene.slurm = False, (Trainer.running, "7")
    assert scene.after(1000) is None
    scene.slurm = (Trainer.waiting, "7")
    assert scene.after(299) is None
    assert scene.after(1) is not None


def test_without_a_trainer_to_come_nothing_is_waited_for(run: RunDir) -> None:
    scene = Scene(run)
    scene.here, scene.slurm = False, (Trainer.over, "")
    assert scene.after(59) is None
    absence = scene.after(1)
    assert absence == Absence("every trainer's job of the run is over", "")


def test_slurm_is_asked_once_a_minute_at_most(run: RunDir) -> None:
    scene = Scene(run, patience_s=10_000)
    scene.here = False
    for _ in range(100):
        assert scene.after(6) is None
    assert scene.asked == 10


def test_a_scheduler_that_gives_no_answer_does_not_keep_the_nodes_for_ever(run: RunDir) -> None:
    scene = Scene(run)
    scene.here, scene.slurm = False, (Trainer.unknown, "7")
    assert scene.after(100) is None
    assert scene.after(200) is not None
