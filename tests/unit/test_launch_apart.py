"""A synthesis daemon in a Slurm job of its own: what becomes of its job, however it ends.

The daemon and Slurm's commands are stand-ins; run directory, signals and outcome files are real.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from launchers import jobs, scheduler
from launchers.identity import config_hash, plain
from launchers.jobs import SubmittedJob
from launchers.scheduler import JobInfo
from launchers.states import lookup
from rods.config import Config, from_mapping
from rods.errors import RodsError
from rods.exchange import stop
from rods.exchange.journal import JournalWriter
from rods.exchange.rundir import RunDir
from rods.roles import outcome, perform, rendezvous, slurm_role
from rods.roles.entry import run_slurm_role

Main = Callable[[str, int], int]
LIMIT = 3


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunDir]:
    """The run as its daemon sees it, in this process, as task 0 of job 4711, whose trainer is job 7."""
    cluster = {"rendezvous_s": 0.2, "coschedule": "pair"}
    config = from_mapping(
        {"experiment": "stub", "cluster": cluster, "launch": {"max_stalled_attempts": LIMIT}}
    )
    whole = RunDir.create(tmp_path, config.experiment, config_hash(config))
    whole.config_file.write_text(yaml.safe_dump(plain(config)))
    whole.next_attempt()
    jobs.record(whole, SubmittedJob("7", ("train",), "pair", 1, 0.0, {}))
    monkeypatch.setattr("launchers.snapshot.verify", lambda _run: Config())
    monkeypatch.setattr("launchers.snapshot.check_origin", lambda _run: None)
    monkeypatch.setattr(perform, "setproctitle", lambda _title: None)
    monkeypatch.setattr(rendezvous, "_LOOK_EVERY_S", 0.05)
    for name in ("SLURM_RESTART_COUNT", "SLURM_PROCID", "SLURM_HET_SIZE", "RODS_REQUEUE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"SLURM_JOB_ID": "4711", "RODS_ROLE": "synthesis", "RODS_SERIES": "synthesis"}.items():
        monkeypatch.setenv(name, value)
    before = {number: signal.getsignal(number) for number in slurm_role.SIGNALS}
    yield RunDir(whole.path, "synthesis")
    for number, handler in before.items():
        signal.signal(number, handler)


class Slurm:
    """Stand-ins for scontrol and for the query of the trainer's job."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        self._folder = folder
        tool = folder / "scontrol"
        tool.write_text(
            f'#!/bin/sh\ncase "$*" in *show*) cat "{folder}/record";; *) echo "$@" >>"{folder}/calls";; esac\n'
        )
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        self.trainer("RUNNING")
        self._patch = monkeypatch
        self.says("RUNNING")
        monkeypatch.setattr(scheduler, "query", lambda ids: {i: JobInfo(i, lookup(self._state)) for i in ids})

    def trainer(self, state: str) -> None:
        self._state = state

    def says(self, state: str, reason: str = "None", restarts: int = 0) -> None:
        (self._folder / "record").write_text(f"JobState={state} Reason={reason} Restarts={restarts}\n")

    def calls(self) -> list[str]:
        file = self._folder / "calls"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    return Slurm(tmp_path / "slurm", monkeypatch)


@pytest.fixture
def start(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> Callable[[Main], int]:
    """Begin the next start of the daemon, whose work is the given function; its exit status."""

    def begin(main: Main) -> int:
        monkeypatch.setenv("RODS_ATTEMPT", str(run.next_attempt()))
        monkeypatch.setattr(perform.ROLES, "get", lambda _role: main)
        return run_slurm_role(str(run.path))

    return begin


def until_stopped(run: RunDir, number: signal.Signals | None = None) -> Main:
    def main(_run_dir: str, attempt: int) -> int:
        if number is not None:
            os.kill(os.getpid(), number)
        deadline = time.monotonic() + 30
        while not stop.is_requested(run, attempt):
            assert time.monotonic() < deadline, "not asked to stop"
            time.sleep(0.01)
        return 0

    return main


def crashes(_run_dir: str, _attempt: int) -> int:
    raise RodsError("the model server did not come up")


def ended(run: RunDir) -> tuple[str, str]:
    found = outcome.read(run, run.last_attempt())
    assert found is not None, "nothing was recorded"
    return str(found.status), found.sentence


def test_it_ends_with_the_run(run: RunDir, slurm: Slurm, start: Callable[[Main], int]) -> None:
    def main(run_dir: str, attempt: int) -> int:
        stop.finish(run.whole, 1)
        return until_stopped(run)(run_dir, attempt)

    assert start(main) == 0
    assert ended(run) == ("finished", "the run finished")
    assert slurm.calls() == []


def test_without_a_trainer_it_comes_back_when_the_trainer_does(
    run: RunDir, slurm: Slurm, start: Callable[[Main], int]
) -> None:
    slurm.trainer("PENDING")
    assert start(until_stopped(run)) == 0
    status, sentence = ended(run)
    assert status == "requeued"
    assert "no trainer for" in sentence
    assert slurm.calls() == ["requeue 4711", "update JobId=4711 Dependency=after:7"]
    assert not run.whole.stop_file.exists()


def test_when_no_trainer_will_come_it_ends(run: RunDir, slurm: Slurm, start: Callable[[Main], int]) -> None:
    slurm.trainer("FAILED")
    assert start(until_stopped(run)) == 0
    assert ended(run) == (
        "stopped",
        "stopped before the run's end: every trainer's job of the run is over",
    )
    assert slurm.calls() == []


@pytest.mark.parametrize(
    ("number", "state", "reason", "restarts", "status", "calls"),
    [
        (signal.SIGUSR2, "RUNNING", "None", 0, "requeued", ["requeue 4711"]),
        (signal.SIGTERM, "COMPLETING", "TimeLimit", 0, "requeued", ["requeue 4711"]),
        (signal.SIGTERM, "COMPLETING", "None", 1, "requeued", []),
        (signal.SIGTERM, "CANCELLED", "None", 0, "stopped", []),
    ],
)
def test_the_signal_decides_whether_it_comes_back(
    run: RunDir,
    slurm: Slurm,
    start: Callable[[Main], int],
    number: signal.Signals,
    state: str,
    reason: str,
    restarts: int,
    status: str,
    calls: list[str],
) -> None:
    slurm.says(state, reason, restarts)
    assert start(until_stopped(run, number)) == 0
    assert ended(run)[0] == status
    assert slurm.calls() == calls


def test_a_crash_puts_it_back_until_that_came_to_nothing_too_often(
    run: RunDir, slurm: Slurm, start: Callable[[Main], int]
) -> None:
    assert [start(crashes) for _ in range(LIMIT)] == [0] * (LIMIT - 1) + [1]
    status, sentence = ended(run)
    assert status == "failed"
    assert f"failed {LIMIT} times in a row" in sentence
    assert "the model server did not come up" in sentence
    assert slurm.calls() == ["requeue 4711"] * (LIMIT - 1)
    assert not run.whole.stop_file.exists()


def test_crashes_are_counted_anew_after_a_start_that_worked(
    run: RunDir, slurm: Slurm, start: Callable[[Main], int]
) -> None:
    for main in [crashes] * (LIMIT - 1) + [until_stopped(run, signal.SIGUSR2)] + [crashes] * (LIMIT - 1):
        assert start(main) == 0


def test_starts_that_were_killed_count_as_crashes(
    run: RunDir, slurm: Slurm, start: Callable[[Main], int]
) -> None:
    def killed(_run_dir: str, _attempt: int) -> int:
        raise SystemExit(137)  # what comes after it in the process does not come

    for _ in range(LIMIT):
        with pytest.raises(SystemExit):
            start(killed)
    worked = []
    assert start(lambda _run_dir, attempt: worked.append(attempt) or 0) == 1
    assert not worked
    assert f"failed {LIMIT} times in a row" in ended(run)[1]


@pytest.mark.parametrize(("name", "limited"), [("variant_published", False), ("seed_claimed", True)])
def test_crashes_after_answers_are_no_reason_to_give_up(
    run: RunDir, slurm: Slurm, start: Callable[[Main], int], name: str, limited: bool
) -> None:
    def main(_run_dir: str, attempt: int) -> int:
        writer = JournalWriter(run.journal_file("synthesis", attempt))
        writer.append({"name": name, "key": "k"})
        writer.close()
        raise RodsError("the model server died")

    statuses = [start(main) for _ in range(LIMIT + 1)]
    assert (1 in statuses) is limited


def test_a_bug_is_raised_and_puts_it_back_too(
    run: RunDir, slurm: Slurm, start: Callable[[Main], int]
) -> None:
    def main(_run_dir: str, _attempt: int) -> int:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        start(main)
    assert ended(run) == ("requeued", "the daemon failed: ValueError: a bug")
    assert slurm.calls() == ["requeue 4711"]


def test_in_a_chain_the_next_job_goes_on(
    run: RunDir, slurm: Slurm, start: Callable[[Main], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RODS_REQUEUE", "0")
    assert start(until_stopped(run, signal.SIGUSR2)) == 0
    assert ended(run)[0] == "stopped"
    assert start(crashes) == 1
    assert ended(run)[0] == "failed"
    assert slurm.calls() == []


def test_a_newer_start_has_the_word(run: RunDir, slurm: Slurm, start: Callable[[Main], int]) -> None:
    def main(run_dir: str, attempt: int) -> int:
        run.next_attempt()
        return until_stopped(run, signal.SIGTERM)(run_dir, attempt)

    slurm.says("CANCELLED")
    assert start(main) == 0
    assert outcome.read(run, 1) is None
