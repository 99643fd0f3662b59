"""The supervisor over real processes: whoever ends first decides, nobody is left behind."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from launch_stubs import pid_of, stub_run
from rich.console import Console

from launchers import local, snapshot
from launchers.errors import LaunchError
from launchers.resources import resources
from launchers.resume import open_for_resume
from rods.exchange import owner, stop
from rods.exchange.atomic import CorruptFileError
from rods.exchange.heartbeat import read_all
from rods.exchange.marker import MARKER
from rods.exchange.rundir import RunDir
from rods.roles.entry import run_role
from rods.roles.launching import conclude
from rods.roles.outcome import Outcome, Status
from rods.roles.supervisor import Patience, Supervisor

PATIENCE = Patience(heartbeat_s=120, stop_s=60, terminate_s=1)


def supervised(
    run: RunDir, patience: Patience = PATIENCE, on_tick: Callable[[], None] = lambda: None
) -> Outcome:
    """One attempt of a stub run, followed to its end in this process."""
    config = snapshot.verify(run)
    attempt = run.next_attempt()
    starters = [
        partial(local.start, config, run.path, part.role, attempt, run_role) for part in resources(config)
    ]
    return Supervisor(run, attempt, starters, patience, on_tick).follow()


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rsplit(")", 1)[1].split()[0] != "Z"


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Poll until `condition`; a bound so that a broken test ends."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.05)


def assert_nothing_left(run: RunDir) -> None:
    """No process of either role lives."""
    for file in run.path.glob("*.pid"):
        assert not is_running(int(file.read_text())), f"{file.name} is still running"


def test_the_trainer_finishing_ends_the_run_and_the_synthesis(tmp_path: Path) -> None:
    run = stub_run(tmp_path, "finish when the other runs", "until stopped")
    outcome = supervised(run)
    assert outcome == Outcome(Status.finished, "the run finished")
    assert outcome.exit_code == 0
    assert (run.path / "synthesis-1.stopped").exists(), "the synthesis was not asked, it was ended"
    assert_nothing_left(run)
    assert stop.is_finished(run)
    assert json.loads((run.attempt_dir(1) / "outcome.json").read_text())["status"] == "finished"
    assert read_all(run.heartbeats)["train"].finished
    assert "hello from train" in (run.attempt_dir(1) / "train.out").read_text()
    assert "hello from synthesis" in (run.attempt_dir(1) / "synthesis.out").read_text()


@pytest.mark.parametrize(
    ("body", "told", "last"),
    [
        ("crash", "the role train ended with exit code 1", "ValueError: the learner lost its gradient"),
        ("refuse", "the role train ended with exit code 1", "train: expected weights, found none"),
        ("exit 7", "the role train ended with exit code 7", ""),
        ("die of SIGKILL", "the role train was killed by SIGKILL", ""),
    ],
)
def test_a_dead_trainer_stops_the_synthesis_and_is_named(
    tmp_path: Path, body: str, told: str, last: str
) -> None:
    run = stub_run(tmp_path, body, "until stopped")
    outcome = supervised(run)
    assert outcome.status is Status.failed
    assert outcome.exit_code == 1
    assert outcome.sentence.startswith(told)
    assert last in outcome.sentence
    assert_nothing_left(run)
    assert not stop.is_finished(run)


def test_a_refusal_is_told_without_a_traceback(tmp_path: Path) -> None:
    outcome = supervised(stub_run(tmp_path, "refuse", "until stopped"))
    assert "Traceback" not in outcome.sentence


@pytest.mark.parametrize("body", ["crash", "finish"])
def test_a_dead_synthesis_lets_the_trainer_save_and_fails_the_run(tmp_path: Path, body: str) -> None:
    run = stub_run(tmp_path, "until stopped", body)
    outcome = supervised(run)
    assert outcome.status is Status.failed
    assert outcome.sentence.startswith("the role synthesis ended")
    assert (run.path / "train-1.stopped").exists(), "the trainer had no chance to save"
    assert_nothing_left(run)
    assert not stop.is_finished(run), "a run that failed must stay resumable"


def test_a_silent_role_counts_as_dead(tmp_path: Path) -> None:
    run = stub_run(tmp_path, "until stopped", "ignore everything")
    outcome = supervised(run, Patience(heartbeat_s=4, stop_s=1, terminate_s=1))
    assert outcome.status is Status.failed
    assert "gave no heartbeat for" in outcome.sentence
    assert "launch.heartbeat_timeout_s" in outcome.sentence
    assert_nothing_left(run)


def test_a_child_that_a_role_left_behind_is_ended(tmp_path: Path) -> None:
    run = stub_run(tmp_path, "leave a child", "until stopped")
    assert supervised(run).status is Status.finished
    assert_nothing_left(run)
    child = int((run.path / "child.pid").read_text())
    wait_for(lambda: not is_running(child), "the child's end")  # a killed process takes a moment to go


def test_a_changed_file_stops_the_run_before_the_role_begins(tmp_path: Path) -> None:
    run = stub_run(tmp_path, "until stopped", "until stopped")
    config = snapshot.verify(run)
    (run.code / "rods" / "reward_note.py").write_text("# added while the job was waiting\n")
    starters = [partial(local.start, config, run.path, part.role, 1, run_role) for part in resources(config)]
    outcome = Supervisor(run, run.next_attempt(), starters, PATIENCE).follow()
    assert outcome.status is Status.failed
    assert "code/rods/reward_note.py was added" in outcome.sentence
    assert not list(run.path.glob("*.pid")), "a role began on changed code"


def test_a_role_that_cannot_be_started_leaves_no_other_behind(tmp_path: Path) -> None:
    run = stub_run(tmp_path, "until stopped", "until stopped")
    config = snapshot.verify(run)

    def broken() -> local.RoleProcess:
        wait_for((run.path / "train-1.pid").exists, "the trainer")
        raise OSError("no space left on device")

    starters: list[Callable[[], local.RoleProcess]] = [
        partial(local.start, config, run.path, "train", 1, run_role),
        broken,
    ]
    with pytest.raises(OSError, match="no space left"):
        Supervisor(run, run.next_attempt(), starters, PATIENCE).follow()
    assert_nothing_left(run)
    assert (run.path / "train-1.stopped").exists(), "the trainer was killed before it could save"
    recorded = json.loads((run.attempt_dir(1) / "outcome.json").read_text())
    assert (recorded["status"], "no space left" in recorded["sentence"]) == ("failed", True)


@pytest.mark.parametrize(
    "error", [BrokenPipeError(), CorruptFileError("metrics are damaged"), KeyError("zones")]
)
def test_a_view_that_fails_is_dropped_and_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    ticks = []

    def tick() -> None:
        ticks.append(1)
        raise error

    run = stub_run(tmp_path, "finish when the other runs", "until stopped")
    assert supervised(run, on_tick=tick).status is Status.finished
    assert len(ticks) == 1
    assert capsys.readouterr().err.count("the progress view failed") == 1
    assert (run.path / "synthesis-1.stopped").exists()


def test_a_full_disk_is_told_and_the_roles_are_signalled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    run = stub_run(tmp_path, "exit 7", "until stopped")
    monkeypatch.setattr("rods.exchange.stop.write_json", full)
    monkeypatch.setattr("rods.exchange.heartbeat.write_json", full)
    monkeypatch.setattr("rods.roles.outcome.write_json", full)
    outcome = supervised(run, Patience(heartbeat_s=120, stop_s=3, terminate_s=3))
    assert outcome.sentence.startswith("the role train ended with exit code 7")
    told = capsys.readouterr().err
    for part in ("sent SIGTERM instead", "heartbeat cannot be written", "could not be recorded"):
        assert part in told
    assert_nothing_left(run)


def test_a_run_whose_output_is_closed_finishes(tmp_path: Path) -> None:
    run = stub_run(tmp_path, "finish when the other runs", "until stopped")
    command = [sys.executable, "-m", "rods.roles.launching", str(run.path), str(run.next_attempt())]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    told = process.stderr.read()
    assert process.wait() == 0, told
    assert "the output was closed; the run goes on" in told
    assert "Traceback" not in told
    assert json.loads((run.attempt_dir(1) / "outcome.json").read_text())["status"] == "finished"


@pytest.fixture
def launched(tmp_path: Path) -> Iterator[Callable[[str, str], tuple[RunDir, subprocess.Popen[str]]]]:
    """Start the supervisor as launch.py does, in a process of its own; ends what a failing test leaves."""
    started: list[subprocess.Popen[str]] = []

    def start(train: str, synthesis: str) -> tuple[RunDir, subprocess.Popen[str]]:
        run = stub_run(tmp_path, train, synthesis)
        process = subprocess.Popen(
            [sys.executable, "-m", "rods.roles.launching", str(run.path), str(run.next_attempt())],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        for role in ("train", "synthesis"):
            wait_for((run.path / f"{role}-1.pid").exists, role)
        return run, process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


Launched = Callable[[str, str], tuple[RunDir, "subprocess.Popen[str]"]]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_both_roles_cleanly(launched: Launched, number: signal.Signals) -> None:
    run, process = launched("until stopped", "until stopped")
    process.send_signal(number)
    output, _ = process.communicate(timeout=90)
    assert process.returncode == 130
    assert "interrupted" in output
    assert "to continue" not in output  # there is no checkpoint yet
    for role in ("train", "synthesis"):
        assert (run.path / f"{role}-1.stopped").exists(), f"{role} was killed"
    assert_nothing_left(run)


def test_a_run_that_finishes_while_it_is_interrupted_has_finished(launched: Launched) -> None:
    run, process = launched("finish although asked to stop", "until stopped")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=90)
    assert process.returncode == 0, output
    assert stop.is_finished(run)
    assert "the run finished" in output


def test_a_second_interrupt_ends_roles_that_do_not_listen(launched: Launched) -> None:
    run, process = launched("ignore everything", "ignore everything")
    process.send_signal(signal.SIGINT)
    wait_for(run.stop_file.exists, "the stop file")
    assert process.poll() is None, "the first interrupt did not wait for the roles"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=90)  # far less than the patience of a clean stop
    assert process.returncode == 130
    assert_nothing_left(run)


def test_roles_have_a_name_and_a_session_of_their_own(launched: Launched) -> None:
    run, process = launched("until stopped", "until stopped")
    for role in ("train", "synthesis"):
        name = Path(f"/proc/{pid_of(run, role)}/comm").read_text().strip()
        assert name.startswith("rods-")
        assert " " not in name, "Slurm's proctrack/linuxproc cannot end a process with a blank in its name"
    assert {os.getsid(pid_of(run, role)) for role in ("train", "synthesis")}.isdisjoint(
        {os.getsid(process.pid)}
    )
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=90)


def test_roles_stop_when_the_supervisor_was_killed(launched: Launched) -> None:
    run, process = launched("until stopped", "until stopped")
    process.kill()
    process.communicate(timeout=90)
    for role in ("train", "synthesis"):
        wait_for((run.path / f"{role}-1.stopped").exists, f"a clean stop of {role}")
        wait_for(lambda role=role: not is_running(pid_of(run, role)), f"the end of {role}")  # type: ignore[misc]


def test_a_role_stops_when_the_process_that_held_it_was_killed_too(launched: Launched) -> None:
    run, process = launched("until stopped", "until stopped")
    controller = int(Path(f"/proc/{pid_of(run, 'train')}/stat").read_text().rsplit(")", 1)[1].split()[1])
    assert controller != process.pid
    os.kill(process.pid, signal.SIGSTOP)  # nobody else shall ask it
    os.kill(controller, signal.SIGKILL)
    wait_for((run.path / "train-1.stopped").exists, "a clean stop of train")
    wait_for(lambda: not is_running(pid_of(run, "train")), "the end of train")
    process.kill()
    process.communicate(timeout=90)
    wait_for(lambda: not is_running(pid_of(run, "synthesis")), "the end of synthesis")


def test_a_run_with_a_checkpoint_says_how_to_go_on(tmp_path: Path) -> None:
    run = stub_run(tmp_path, "finish", "until stopped")
    said = io.StringIO()
    console = Console(file=said, width=200)
    conclude(run, Outcome(Status.stopped, "stopped"), console)
    assert "to continue" not in said.getvalue()
    saved = run.checkpoints / "step_000001"
    saved.mkdir(parents=True)
    (saved / MARKER).write_text("{}")
    conclude(run, Outcome(Status.stopped, "stopped"), console)
    assert said.getvalue().endswith(f"to continue:   rods resume {run.path}\n")


def test_a_stopped_run_is_continued_as_the_next_attempt(tmp_path: Path) -> None:
    run = stub_run(tmp_path, "finish when the other runs", "until stopped")
    stop.request(run, run.next_attempt(), "an earlier attempt was stopped")
    run = open_for_resume(str(run.path), snapshot.load_config(run))
    assert supervised(run).status is Status.finished
    assert pid_of(run, "train", attempt=2)
    assert (run.attempt_dir(2) / "train.out").exists()
    owner.release(run)  # as launching does when its supervisor has ended
    with pytest.raises(LaunchError, match="this run has finished"):
        open_for_resume(str(run.path), snapshot.load_config(run))
