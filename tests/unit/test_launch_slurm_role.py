"""A role inside a Slurm job: what becomes of the attempt and of the job, however the role ends.

The roles are stand-ins; run directory, signals, outcome files and the requeue command are real.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from launch_stubs import stub_run

from launchers import jobs, snapshot
from rods.config import Config, from_mapping
from rods.exchange import marker, stop
from rods.exchange.heartbeat import read_all
from rods.exchange.rundir import RunDir
from rods.roles import begun, nodes, outcome, perform, slurm_role
from rods.roles.entry import run_slurm_role
from rods.roles.notice import Notice, Then
from rods.roles.outcome import Outcome, Status
from rods.roles.perform import Ended
from rods.roles.slurm_role import judge

Main = Callable[[str, int], int]
STOPPED = os.EX_TEMPFAIL


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunDir]:
    """A frozen run directory in its first attempt, in this process, as task 0 of job 4711."""
    config = from_mapping({"experiment": "stub", "launch": {"max_stalled_attempts": 2}})
    made = stub_run(tmp_path, "finish", "until stopped", config)
    made.next_attempt()
    monkeypatch.setattr("launchers.snapshot.verify", lambda _run: Config())
    monkeypatch.setattr("launchers.snapshot.check_origin", lambda _run: None)
    monkeypatch.setattr(perform, "setproctitle", lambda _title: None)
    for name in ("SLURM_RESTART_COUNT", "SLURM_PROCID", "SLURM_HET_SIZE", "RODS_REQUEUE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("RODS_ROLE", "train")
    monkeypatch.setenv("RODS_ATTEMPT", "1")
    before = {number: signal.getsignal(number) for number in slurm_role.SIGNALS}
    yield made
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a stand-in for scontrol: it shows the file `record` and notes other calls in `calls`."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    tool = folder / "scontrol"
    tool.write_text(
        f'#!/bin/sh\ncase "$*" in *show*) cat "{folder}/record";; '
        f'*) echo "$@" >>"{folder}/calls"; [ ! -e "{folder}/broken" ] || {{ echo refused >&2; exit 1; }};; esac\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def says(slurm: Path, state: str, reason: str = "None", restarts: int = 0, more: str = "") -> None:
    """Let the controller's record be this."""
    (slurm / "record").write_text(f"JobId=4711 JobState={state} Reason={reason} Restarts={restarts} {more}\n")


def calls(slurm: Path) -> list[str]:
    """What scontrol was told to do."""
    file = slurm / "calls"
    return file.read_text().splitlines() if file.exists() else []


def ending_with(monkeypatch: pytest.MonkeyPatch, main: Main) -> None:
    """Let every role be `main`."""
    monkeypatch.setattr(perform.ROLES, "get", lambda _role: main)


def until_stopped(run: RunDir, number: signal.Signals, status: int = STOPPED) -> Main:
    """A role that is sent `number`, works until it is asked to stop, and ends with `status`."""

    def main(_run_dir: str, attempt: int) -> int:
        os.kill(os.getpid(), number)
        deadline = time.monotonic() + 30
        while not stop.is_requested(run, attempt):
            assert time.monotonic() < deadline, "not asked to stop"
            time.sleep(0.01)
        return status

    return main


def ended(run: RunDir, attempt: int = 1) -> tuple[str, str]:
    """Status and sentence of the recorded outcome."""
    found = outcome.read(run, attempt)
    assert found is not None, "nothing was recorded"
    return str(found.status), found.sentence


def test_a_trainer_that_came_to_its_end_has_finished(
    run: RunDir, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(slurm, "RUNNING")
    ending_with(monkeypatch, until_stopped(run, signal.SIGUSR2, status=0))
    assert run_slurm_role(str(run.path)) == 0
    assert stop.is_finished(run)
    assert ended(run) == ("finished", "the run finished")
    assert read_all(run.heartbeats)["train"].finished
    assert not calls(slurm)


@pytest.mark.parametrize(
    ("number", "record", "status", "word", "called"),
    [
        (signal.SIGUSR2, ("RUNNING",), "requeued", "time limit", ["requeue 4711"]),
        (
            signal.SIGTERM,
            ("RUNNING", "None", 0, "PreemptTime=now"),
            "requeued",
            "preemption",
            ["requeue 4711"],
        ),
        (signal.SIGTERM, ("COMPLETING", "TimeLimit"), "requeued", "time limit", ["requeue 4711"]),
        (signal.SIGTERM, ("COMPLETING", "None", 1), "requeued", "put the job back", []),
        (signal.SIGTERM, ("COMPLETING",), "stopped", "cancelled", []),
        (signal.SIGTERM, ("RUNNING",), "failed", "another task", []),
    ],
)
def test_the_signal_decides_whether_the_job_goes_back(
    run: RunDir,
    slurm: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    record: tuple[str, ...],
    status: str,
    word: str,
    called: list[str],
) -> None:
    says(slurm, *record)  # type: ignore[arg-type]
    ending_with(monkeypatch, until_stopped(run, number))
    assert run_slurm_role(str(run.path)) == (1 if status == "failed" else 0)
    assert ended(run)[0] == status
    assert word in ended(run)[1]
    assert calls(slurm) == called
    assert not stop.is_finished(run)


def test_a_cancellation_after_a_warning_is_not_undone(
    run: RunDir, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(slurm, "RUNNING")

    def main(_run_dir: str, _attempt: int) -> int:
        os.kill(os.getpid(), signal.SIGUSR2)
        time.sleep(0.3)  # the first record is read
        says(slurm, "COMPLETING")
        os.kill(os.getpid(), signal.SIGTERM)
        return STOPPED

    ending_with(monkeypatch, main)
    assert run_slurm_role(str(run.path)) == 0
    assert ended(run)[0] == "stopped"
    assert not calls(slurm)


def test_a_wish_of_the_other_role_is_the_reason(
    run: RunDir, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for then, status in ((Then.put_back, "requeued"), (Then.failed, "failed"), (Then.ends, "stopped")):
        run.stop_file.unlink(missing_ok=True)
        stop.request(run, 1, "synthesis: a word", then)
        ending_with(monkeypatch, lambda _run_dir, _attempt: STOPPED)
        run_slurm_role(str(run.path))
        assert ended(run)[0] == status
        assert "synthesis: a word" in ended(run)[1]
    assert calls(slurm) == ["requeue 4711"]


def test_a_chains_job_is_not_put_back(run: RunDir, slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says(slurm, "RUNNING")
    monkeypatch.setenv("RODS_REQUEUE", "0")
    ending_with(monkeypatch, until_stopped(run, signal.SIGUSR2))
    assert run_slurm_role(str(run.path)) == 0
    assert ended(run)[0] == "stopped"
    assert "next job" in ended(run)[1]
    assert "put back" not in ended(run)[1]
    assert not calls(slurm)


def test_where_slurms_commands_are_missing_the_batch_script_is_asked(
    run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("RODS_LOGS", str(run.attempt_dir(1)))
    ending_with(monkeypatch, until_stopped(run, signal.SIGUSR2))
    assert run_slurm_role(str(run.path)) == 0
    assert ended(run)[0] == "requeued"
    assert (run.attempt_dir(1) / jobs.PUT_BACK).exists()


def test_a_job_that_slurm_does_not_take_back_has_failed(
    run: RunDir, slurm: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    says(slurm, "RUNNING")
    (slurm / "broken").touch()
    ending_with(monkeypatch, until_stopped(run, signal.SIGUSR2))
    assert run_slurm_role(str(run.path)) == 1
    assert ended(run)[0] == "failed"
    assert "refused" in ended(run)[1]
    assert "refused" in capsys.readouterr().err


def test_a_further_node_that_cannot_reach_rank_0_says_so_in_its_place(
    run: RunDir, slurm: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLURM_PROCID", "1")
    monkeypatch.setattr("rods.roles.nodes.setproctitle", lambda _title: None)
    monkeypatch.setattr("rods.roles.nodes.find", lambda *_: nodes.client("127.0.0.1", 1, wait_s=1))
    ending_with(monkeypatch, lambda _run_dir, _attempt: pytest.fail("rank 0's work"))
    assert run_slurm_role(str(run.path)) == 1
    told = "the trainer's node 1: expected rank 0's store at 127.0.0.1:1"
    assert told in capsys.readouterr().err
    assert ended(run)[0] == "failed"
    assert told in ended(run)[1]
    assert not calls(slurm)


LAST_WORDS = """
import sys
from pathlib import Path
from rods.exchange.rundir import RunDir
from rods.roles import last_words, perform
from rods.roles.entry import run_slurm_role
from rods.roles.notice import Then
perform.perform = lambda *_: last_words.end("node 1 (n2) was lost", Then(sys.argv[2]))
from rods.roles import slurm_role
slurm_role.perform = perform.perform
run_slurm_role(sys.argv[1])
"""


@pytest.mark.parametrize(
    ("then", "status", "called"), [(Then.put_back, "requeued", ["requeue 4711"]), (Then.failed, "failed", [])]
)
def test_a_trainer_that_hangs_in_a_collective_says_its_last_words(
    run: RunDir, slurm: Path, then: Then, status: str, called: list[str]
) -> None:
    done = subprocess.run([sys.executable, "-c", LAST_WORDS, str(run.path), then], check=False, timeout=60)
    assert done.returncode == 1
    found, sentence = ended(run)
    assert (found, "node 1 (n2) was lost" in sentence) == (status, True)
    assert calls(slurm) == called


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), outcome.CorruptFileError("torn")]
)
def test_a_role_that_says_what_is_wrong_has_failed_without_a_traceback(
    run: RunDir,
    slurm: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
) -> None:
    def main(_run_dir: str, _attempt: int) -> int:
        raise error

    ending_with(monkeypatch, main)
    assert run_slurm_role(str(run.path)) == 1
    assert ended(run) == ("failed", f"the role train failed: {error}")
    assert "Traceback" not in capsys.readouterr().err
    assert not calls(slurm)


def test_a_bug_is_recorded_and_raised(run: RunDir, slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def main(_run_dir: str, _attempt: int) -> int:
        raise ZeroDivisionError("a bug")

    ending_with(monkeypatch, main)
    with pytest.raises(ZeroDivisionError):
        run_slurm_role(str(run.path))
    assert ended(run) == ("failed", "the role train failed: ZeroDivisionError: a bug")


def begin(run: RunDir, monkeypatch: pytest.MonkeyPatch, restart: int) -> int:
    """The job's next start; returns the attempt."""
    attempt = run.next_attempt() if restart else 1
    monkeypatch.setenv("SLURM_RESTART_COUNT", str(restart))
    monkeypatch.setenv("RODS_ATTEMPT", str(attempt))
    return attempt


def checkpoint(run: RunDir, step: int, attempt: int) -> None:
    """A complete checkpoint."""
    folder = run.checkpoints / f"step_{step:06d}-{attempt:04d}"
    folder.mkdir()
    marker.write(folder, step, attempt, 0)


def test_starts_without_a_new_checkpoint_come_to_an_end(
    run: RunDir, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(slurm, "RUNNING")
    ending_with(monkeypatch, until_stopped(run, signal.SIGUSR2))
    begin(run, monkeypatch, 0)
    assert run_slurm_role(str(run.path)) == 0
    begin(run, monkeypatch, 1)
    assert run_slurm_role(str(run.path)) == 1
    assert calls(slurm) == ["requeue 4711"]
    assert ended(run, 2)[0] == "failed"
    assert "2 attempts in a row ended without a new checkpoint" in ended(run, 2)[1]
    assert "launch.max_stalled_attempts = 2" in ended(run, 2)[1]


def test_starts_that_were_killed_count_too_and_are_named(
    run: RunDir, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_run_dir: str, _attempt: int) -> int:
        raise SystemExit(137)  # what comes after it in the process does not come

    worked = []
    ending_with(monkeypatch, killed)
    for restart in (0, 1):
        begin(run, monkeypatch, restart)
        with pytest.raises(SystemExit):
            run_slurm_role(str(run.path))
    ending_with(monkeypatch, lambda _run_dir, attempt: worked.append(attempt) or 0)
    begin(run, monkeypatch, 2)
    assert run_slurm_role(str(run.path)) == 1
    assert not worked, "the third start should not have begun"
    assert [ended(run, number)[0] for number in (1, 2, 3)] == ["requeued", "requeued", "failed"]
    assert "without a word" in ended(run, 1)[1]


def test_a_new_checkpoint_or_a_new_job_begins_the_count_anew(
    run: RunDir, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(slurm, "RUNNING")

    def main(run_dir: str, attempt: int) -> int:
        checkpoint(run, attempt, attempt)
        return until_stopped(run, signal.SIGUSR2)(run_dir, attempt)

    ending_with(monkeypatch, main)
    for restart in range(3):
        attempt = begin(run, monkeypatch, restart)
        assert run_slurm_role(str(run.path)) == 0, ended(run, attempt)
    ending_with(monkeypatch, until_stopped(run, signal.SIGUSR2))
    begin(run, monkeypatch, 3)
    assert run_slurm_role(str(run.path)) == 0
    monkeypatch.setenv("SLURM_JOB_ID", "4712")
    attempt = begin(run, monkeypatch, 4)
    assert run_slurm_role(str(run.path)) == 0
    assert ended(run, attempt)[0] == "requeued"
    assert begun.newest_step(run) == 3


def test_an_overtaken_attempt_says_and_requeues_nothing(
    run: RunDir, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(slurm, "RUNNING")

    def main(run_dir: str, attempt: int) -> int:
        run.next_attempt()
        return until_stopped(run, signal.SIGUSR2)(run_dir, attempt)

    ending_with(monkeypatch, main)
    run_slurm_role(str(run.path))
    assert outcome.read(run, 1) is None
    assert not calls(slurm)


@pytest.fixture
def companion(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    """The run, seen from its synthesis."""
    monkeypatch.setenv("RODS_ROLE", "synthesis")
    monkeypatch.setenv("SLURM_PROCID", "1")
    return run


@pytest.mark.parametrize(
    ("number", "record", "then"),
    [
        (signal.SIGUSR2, ("RUNNING",), Then.put_back),
        (signal.SIGTERM, ("COMPLETING",), Then.ends),
        (signal.SIGTERM, ("COMPLETING", "None", 1), Then.returns),
    ],
)
def test_the_synthesis_tells_the_trainer_why_it_stops(
    companion: RunDir,
    slurm: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    record: tuple[str, ...],
    then: Then,
) -> None:
    says(slurm, *record)  # type: ignore[arg-type]
    ending_with(monkeypatch, until_stopped(companion, number, status=0))
    assert run_slurm_role(str(companion.path)) == 0
    request = stop.read(companion)
    assert request is not None
    assert (request.attempt, request.then) == (1, then)
    assert request.reason.startswith("synthesis: ")
    assert not calls(slurm), "the trainer puts the job back"
    assert outcome.read(companion, 1) is None


def test_a_failed_synthesis_waits_until_the_trainer_has_saved(
    companion: RunDir, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def main(_run_dir: str, _attempt: int) -> int:
        raise OSError(errno.EIO, "the server is gone")

    def trainer() -> None:
        while stop.read(companion) is None:
            time.sleep(0.01)
        time.sleep(0.5)
        outcome.record(companion, 1, Outcome(Status.failed, "saved"))

    ending_with(monkeypatch, main)
    thread = threading.Thread(target=trainer)
    thread.start()
    assert run_slurm_role(str(companion.path)) == 1
    assert ended(companion) == ("failed", "saved"), "it did not wait"
    thread.join()
    request = stop.read(companion)
    assert request is not None
    assert "the role synthesis failed" in request.reason
    assert "the server is gone" in request.reason


def test_a_bug_of_the_synthesis_is_told_too(
    companion: RunDir, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def main(_run_dir: str, _attempt: int) -> int:
        raise ZeroDivisionError("a bug")

    ending_with(monkeypatch, main)
    outcome.record(companion, 1, Outcome(Status.failed, "the trainer is gone already"))
    with pytest.raises(ZeroDivisionError):
        run_slurm_role(str(companion.path))
    request = stop.read(companion)
    assert request is not None
    assert "ZeroDivisionError: a bug" in request.reason


def test_the_synthesis_speaks_for_a_trainer_that_was_killed(
    companion: RunDir, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(slurm, "RUNNING")
    ending_with(monkeypatch, until_stopped(companion, signal.SIGTERM, status=0))
    assert run_slurm_role(str(companion.path)) == 0
    assert ended(companion)[0] == "failed"
    assert "another task of the job died" in ended(companion)[1]


def test_what_the_trainer_said_itself_stays(
    companion: RunDir, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(slurm, "RUNNING")
    outcome.record(companion, 1, Outcome(Status.failed, "the role train failed: its own words"))
    ending_with(monkeypatch, until_stopped(companion, signal.SIGTERM, status=0))
    run_slurm_role(str(companion.path))
    assert "its own words" in ended(companion)[1]


def test_a_failed_trainer_that_slurm_puts_back_was_requeued() -> None:
    ending, ours = judge(Ended(1, "NCCL timeout"), Notice("a lost node", Then.returns), None)
    assert (ending.status, ours) == (Status.requeued, False)


def test_a_lost_node_is_put_back_and_named_whoever_notices_first() -> None:
    lost = stop.StopRequest(1, "the trainer's node 1 (n7) has given no sign of life", Then.put_back)
    died = Notice("another task of the job died", Then.failed)
    assert judge(Ended(STOPPED), died, lost) == (Outcome(Status.requeued, lost.reason), True)
    slurms = Notice("Slurm put the job back", Then.returns)
    ending, ours = judge(Ended(STOPPED), slurms, lost)
    assert (ending, ours) == (
        Outcome(Status.requeued, f"Slurm put the job back; {lost.reason}"),
        False,
    )


def test_what_a_role_said_before_it_died_explains_the_signal_of_its_death() -> None:
    request = stop.StopRequest(1, "the role synthesis failed: no weights", Then.failed)
    srun = Notice("another task of the job died", Then.failed)
    assert "no weights" in judge(Ended(STOPPED), srun, request)[0].sentence
    # What Slurm has said itself needs no explanation.
    for then in (Then.ends, Then.put_back):
        assert "by Slurm" in judge(Ended(STOPPED), Notice("by Slurm", then), request)[0].sentence


def test_an_attempt_that_got_on_has_not_stalled(run: RunDir) -> None:
    begun.note(run, 1, "4711")
    assert begun.stalled(run, 1) == 1
    checkpoint(run, 1, 1)
    assert begun.stalled(run, 1) == 0
    run.next_attempt()
    begun.note(run, 2, "4711")
    assert begun.stalled(run, 2) == 1


def test_a_stop_file_made_by_hand_stops_for_good() -> None:
    ending, ours = judge(Ended(STOPPED), None, stop.StopRequest(None, "STOP was made by hand"))
    assert (ending.status, ours) == (Status.stopped, False)
    assert "by hand" in ending.sentence


def test_the_outcome_file_is_plain_and_a_damaged_one_is_named(run: RunDir) -> None:
    outcome.record(run, 1, Outcome(Status.requeued, "because"))
    body = json.loads(outcome.path(run, 1).read_text())
    assert body == {"status": "requeued", "exit_code": 1, "sentence": "because"}
    outcome.path(run, 1).write_text('{"status": "gone"}')
    with pytest.raises(outcome.CorruptFileError, match=r"outcome\.json: expected how the attempt ended"):
        outcome.read(run, 1)


def test_the_frozen_configuration_holds_the_cap(run: RunDir) -> None:
    assert snapshot.load_config(run).launch.max_stalled_attempts == 2
