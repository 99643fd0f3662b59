"""A role that is asked to stop while it waits on a full disk has obeyed: it is continued, not called a failure."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import mounts
import pytest

from rods.config import Config
from rods.exchange import atomic, stop
from rods.exchange.heartbeat import read_all
from rods.exchange.rundir import RunDir
from rods.roles import perform
from rods.roles.perform import Ended

BEFORE = {"step": 1}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunDir]:
    """On a full small disk; the frozen code is not checked."""
    monkeypatch.setattr("launchers.snapshot.verify", lambda _run: Config())
    monkeypatch.setattr("launchers.snapshot.check_origin", lambda _run: None)
    monkeypatch.setattr(perform, "setproctitle", lambda _title: None)
    with mounts.tmpfs(tmp_path / "small") as disk:
        made = RunDir.create(disk, "full", "0" * 64)
        made.next_attempt()
        atomic.write_json(made.tracker, BEFORE)
        yield made


def work(monkeypatch: pytest.MonkeyPatch, run: RunDir, asked: bool, number: int = 0) -> None:
    """Let every role write until the disk is full; it is asked to stop before the first wait, or not."""

    def main(_run_dir: str, attempt: int) -> int:
        if asked:
            stop.request_by_signal(run, attempt, "enough")
        if number:
            raise OSError(number, os.strerror(number))
        mounts.fill(run.path)
        atomic.write_json(run.tracker, {"text": "x" * 20_000})
        return 0

    monkeypatch.setattr(perform.ROLES, "get", lambda _role: main)


@pytest.mark.parametrize(("role", "status"), [("train", os.EX_TEMPFAIL), ("synthesis", 0)])
def test_a_stop_in_a_pause_is_a_stop(
    run: RunDir,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    role: str,
    status: int,
) -> None:
    work(monkeypatch, run, asked=True)
    assert perform.perform(run, role, 1) == Ended(status)
    told = capsys.readouterr().err
    assert f"{role}: paused." in told
    assert f"{role}: stopped while it waited for space; what was written before is whole." in told
    assert atomic.read_json(run.tracker) == BEFORE
    assert not stop.is_finished(run)
    assert role in read_all(run.heartbeats)


@pytest.mark.parametrize(("asked", "number"), [(True, errno.EACCES), (False, errno.ENOSPC)])
def test_anything_else_stays_a_failure(
    run: RunDir, monkeypatch: pytest.MonkeyPatch, asked: bool, number: int
) -> None:
    work(monkeypatch, run, asked=asked, number=number)
    ended = perform.perform(run, "train", 1)
    assert (ended.status, ended.error) == (1, str(OSError(number, os.strerror(number))))
