"""`rods cancel`: a checkpoint first, or at once; what waits leaves the queue, and what comes back to it too."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner
from watch_examples import make_run, submitted

from launchers.scheduler import Answer, Scheduler
from rods.cli import app
from rods.exchange import owner, stop
from rods.exchange.rundir import RunDir
from rods.roles.cancelling import REASON, CancelError, Canceller


class Queue:
    """Jobs in Slurm's queue, by id; what happens to them is the test's to say.

    Args:
        jobs: their states.
        on_look: called before each answer.
    """

    def __init__(self, **jobs: str) -> None:
        self.jobs = {name.removeprefix("j"): state for name, state in jobs.items()}
        self.on_look: list[dict[str, str]] = []
        self.cancelled: list[str] = []
        self.dumb = False

    def ask(self, command: Sequence[str]) -> Answer:
        """squeue's text; sacct knows nothing."""
        if self.dumb:
            return Answer("", f"{command[0]} failed: Unable to contact slurm controller")
        if command[0] == "sacct":
            return Answer("")
        text = "".join(f"{job}|{state}|1|1|0:05|1:00|n1|None\n" for job, state in self.jobs.items())
        if self.on_look:
            self.jobs |= self.on_look.pop(0)
        return Answer(text)

    def cancel(self, ids: Sequence[str]) -> str:
        """As scancel: they are over at the next look."""
        self.cancelled += ids
        self.jobs |= dict.fromkeys(ids, "CANCELLED")
        return ""


def canceller(run: RunDir, slurm: Queue) -> tuple[Canceller, list[str]]:
    """One whose clock moves by its own waiting, and what it says."""
    said, now = list[str](), [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    asked = Scheduler(slurm.ask, cache_s=0, clock=lambda: now[0])
    return Canceller(run, said.append, asked, slurm.cancel, sleep, lambda: now[0]), said


def test_a_job_at_work_is_asked_and_waited_for(tmp_path: Path) -> None:
    run, slurm = make_run(tmp_path), Queue(j5="RUNNING")
    submitted(run, "5", "train", "synthesis")
    slurm.on_look = [{}, {}, {"5": "COMPLETED"}]
    mine, said = canceller(run, slurm)
    assert mine.cleanly(60)
    assert slurm.cancelled == []
    assert said == ["asked the roles to save their state and end"]
    request = stop.read(run)
    assert request is not None
    assert (request.attempt, request.reason) == (1, REASON)


@pytest.mark.parametrize("state", ["PENDING", "REQUEUE_HOLD", "CONFIGURING"])
def test_what_waits_is_cancelled_without_asking_anybody(tmp_path: Path, state: str) -> None:
    run, slurm = make_run(tmp_path), Queue(j5=state, j6=state)
    submitted(run, "5", "train")
    submitted(run, "6", "synthesis")
    mine, _ = canceller(run, slurm)
    assert mine.cleanly(60)
    assert slurm.cancelled == ["5", "6"]
    assert stop.read(run) is None


def test_a_job_that_comes_back_to_the_queue_is_cancelled_there(tmp_path: Path) -> None:
    run, slurm = make_run(tmp_path), Queue(j5="RUNNING")
    submitted(run, "5", "train")
    slurm.on_look = [{"5": "COMPLETING"}, {"5": "PENDING"}]
    mine, _ = canceller(run, slurm)
    assert mine.cleanly(60)
    assert slurm.cancelled == ["5"]


def test_a_job_that_stays_in_the_queue_is_cancelled_again(tmp_path: Path) -> None:
    run, slurm = make_run(tmp_path), Queue(j5="PENDING")
    submitted(run, "5", "train")
    mine, said = canceller(run, slurm)
    answers = iter(["slurm_kill_job failed: Socket timed out", "", ""])

    def scancel(ids: Sequence[str]) -> str:
        trouble = next(answers)
        return trouble or slurm.cancel(ids)

    mine.scancel = scancel
    assert mine.cleanly(60)
    assert said == ["scancel 5: slurm_kill_job failed: Socket timed out", "scancel 5"]


def test_a_start_that_began_meanwhile_is_asked_too(tmp_path: Path) -> None:
    run, slurm = make_run(tmp_path), Queue(j5="RUNNING")
    submitted(run, "5", "train")
    mine, _ = canceller(run, slurm)
    looks = iter(range(9))

    def sleep(_: float) -> None:
        if next(looks) == 0:
            stop.clear_stale(run, run.next_attempt())
        else:
            slurm.jobs["5"] = "COMPLETED"

    mine.sleep = sleep
    assert mine.cleanly(60)
    request = stop.read(run)
    assert request is not None
    assert request.attempt == 2


def test_the_next_job_of_a_chain_goes_before_the_one_at_work(tmp_path: Path) -> None:
    run, slurm = make_run(tmp_path), Queue(j5="RUNNING", j6="PENDING")
    for job in ("5", "6"):
        submitted(run, job, "train")
    slurm.on_look = [{}, {"5": "COMPLETED"}]
    mine, said = canceller(run, slurm)
    assert mine.cleanly(60)
    assert (slurm.cancelled, said[0]) == (["6"], "scancel 6")


def test_daemons_are_cancelled_once_their_trainer_has_ended(tmp_path: Path) -> None:
    run, slurm = make_run(tmp_path), Queue(j5="RUNNING", j6="RUNNING")
    submitted(run, "5", "train")
    submitted(run, "6", "synthesis", replica=0)
    slurm.on_look = [{}, {"5": "COMPLETED"}]
    mine, _ = canceller(run, slurm)
    assert mine.cleanly(60)
    assert slurm.cancelled == ["6"]


def test_patience_ends(tmp_path: Path) -> None:
    run, slurm = make_run(tmp_path), Queue(j5="RUNNING")
    submitted(run, "5", "train")
    mine, _ = canceller(run, slurm)
    assert not mine.cleanly(30)


def test_at_once_cancels_everything(tmp_path: Path) -> None:
    run, slurm = make_run(tmp_path), Queue(j5="RUNNING", j6="PENDING", j7="COMPLETED")
    for job in ("5", "6", "7"):
        submitted(run, job, "train")
    mine, _ = canceller(run, slurm)
    assert mine.at_once(30)
    assert slurm.cancelled == ["5", "6"]
    assert stop.read(run) is None


def test_without_slurms_answer_nothing_is_claimed(tmp_path: Path) -> None:
    run, slurm = make_run(tmp_path), Queue(j5="RUNNING")
    submitted(run, "5", "train")
    slurm.dumb = True
    mine, _ = canceller(run, slurm)
    with pytest.raises(CancelError, match="expected Slurm's answer about job 5"):
        mine.cleanly(30)


def follower(run: RunDir) -> subprocess.Popen[bytes]:
    """A process that owns the run and counts how often it is asked to end by a signal."""
    code = (
        "import signal, sys, time; from pathlib import Path; from rods.exchange import owner\n"
        "from rods.exchange.rundir import RunDir\n"
        "run = RunDir(Path(sys.argv[1])); owner.take(run, 300); count = 0\n"
        "def ask(*_):\n    global count; count += 1\n"
        "signal.signal(signal.SIGTERM, ask); print('up', flush=True)\n"
        "while count < 2 and not (run.path / 'STOP').exists(): time.sleep(0.02)\n"
        "owner.release(run); sys.exit(count)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(run.path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_a_run_of_this_machine_ends_by_its_stop_file(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    process = follower(run)
    done = CliRunner().invoke(app, ["cancel", str(run.path), "--yes", "--json"], catch_exceptions=False)
    assert (done.exit_code, json.loads(done.stdout)["ended"]) == (0, True)
    assert process.wait(timeout=30) == 0


def test_at_once_its_supervisor_gets_the_signal_twice(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    process = follower(run)
    done = CliRunner().invoke(app, ["cancel", str(run.path), "--yes", "--now"], catch_exceptions=False)
    assert done.exit_code == 0
    assert process.wait(timeout=30) == 2
    assert "has ended; to go on: rods resume" in done.stdout


def test_a_process_of_another_machine_is_not_signalled_by_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path)
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    owner.take(run, 300)
    monkeypatch.undo()
    monkeypatch.setattr(os, "kill", lambda pid, number: pytest.fail(f"signalled {pid} with {number}"))
    mine, _ = canceller(run, Queue())
    with pytest.raises(CancelError, match="on elsewhere"):
        mine.at_once(10)


def test_it_asks_first_and_says_when_there_is_nothing_to_end(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    done = CliRunner().invoke(app, ["cancel", str(run.path)], catch_exceptions=False)
    assert (done.exit_code, "nothing of it runs or waits" in done.stdout) == (0, True)
    process = follower(run)
    done = CliRunner().invoke(app, ["cancel", str(run.path)], input="n\n", catch_exceptions=False)
    assert f"process {process.pid} on" in done.stdout
    assert "goes on" in done.stdout
    assert stop.read(run) is None
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=30)
