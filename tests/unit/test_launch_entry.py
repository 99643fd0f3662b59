"""How a role's end is told to whoever started it: by an exit status and a sentence."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rods.exchange import stop
from rods.exchange.heartbeat import read_all
from rods.exchange.rundir import RunDir
from rods.roles import entry

Main = Callable[[str, int], int]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    """A run directory whose frozen code is not checked, in this process, with its signals left alone."""
    made = RunDir.create(tmp_path, "entry", "0" * 64)
    made.next_attempt()
    for check in ("verify", "check_origin"):
        monkeypatch.setattr(f"launchers.snapshot.{check}", lambda _run: None)
    monkeypatch.setattr(entry, "_SIGNALS", ())
    monkeypatch.setattr(entry, "setproctitle", lambda _title: None)
    monkeypatch.setenv("RODS_ROLE", "train")
    monkeypatch.setenv("RODS_ATTEMPT", "1")
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    return made


def ending_with(monkeypatch: pytest.MonkeyPatch, main: Main) -> None:
    """Let every role be `main`."""
    monkeypatch.setattr(entry.ROLES, "get", lambda _role: main)


@pytest.fixture
def requeued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a stand-in for scontrol was called with; absent when it was not."""
    calls, tools = tmp_path / "calls", tmp_path / "bin"
    tools.mkdir()
    (tools / "scontrol").write_text(f'#!/bin/sh\necho "$@" >>"{calls}"\n')
    (tools / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    return calls


def test_a_trainer_that_came_to_its_end_has_finished_whatever_was_asked(
    run: RunDir, requeued: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def main(_run_dir: str, attempt: int) -> int:
        stop.request(run, attempt, "train received SIGINT")
        return 0

    ending_with(monkeypatch, main)
    assert entry.run_slurm_role(str(run.path)) == 0
    assert stop.is_finished(run)
    assert read_all(run.heartbeats)["train"].finished
    assert not requeued.exists()


def test_a_trainer_that_was_stopped_before_its_end_goes_back_into_the_queue(
    run: RunDir, requeued: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending_with(monkeypatch, lambda _run_dir, _attempt: os.EX_TEMPFAIL)
    assert entry.run_slurm_role(str(run.path)) == 0
    assert requeued.read_text() == "requeue 4711\n"
    assert not stop.is_finished(run)
    assert read_all(run.heartbeats)["train"].finished


def test_here_the_supervisor_is_told_of_a_stop_by_the_status(
    run: RunDir, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ending_with(monkeypatch, lambda _run_dir, _attempt: os.EX_TEMPFAIL)
    with pytest.raises(SystemExit) as ended:
        entry.run_role(str(run.path), "train", 1)
    assert ended.value.code == os.EX_TEMPFAIL
    assert not stop.is_finished(run)
    assert capsys.readouterr().err == ""


def test_the_synthesis_never_finishes_the_run(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    ending_with(monkeypatch, lambda _run_dir, _attempt: 0)
    assert entry.run_role(str(run.path), "synthesis", 1) == 0
    assert not stop.is_finished(run)


@pytest.mark.parametrize("start", [lambda path: entry.run_role(path, "train", 1), entry.run_slurm_role])
def test_a_full_disk_is_a_sentence_and_no_requeue(
    run: RunDir,
    requeued: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    start: Callable[[str], int],
) -> None:
    def main(_run_dir: str, _attempt: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", "checkpoints/step_000010")

    ending_with(monkeypatch, main)
    with pytest.raises(SystemExit) as ended:
        start(str(run.path))
    assert ended.value.code == 1
    assert "No space left on device: 'checkpoints/step_000010'" in capsys.readouterr().err
    assert not requeued.exists()
    assert not stop.is_finished(run)
