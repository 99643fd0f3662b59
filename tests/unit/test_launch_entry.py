"""How a role's end is told to whoever started it on this machine: by an exit status and a sentence."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rods.config import Config
from rods.exchange import stop
from rods.exchange.heartbeat import read_all
from rods.exchange.rundir import RunDir
from rods.roles import entry, perform

Main = Callable[[str, int], int]
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunDir]:
    """A run directory whose frozen code is not checked, in this process, whose signals are put back after."""
    made = RunDir.create(tmp_path, "entry", "0" * 64)
    made.next_attempt()
    monkeypatch.setattr("launchers.snapshot.verify", lambda _run: Config())
    monkeypatch.setattr("launchers.snapshot.check_origin", lambda _run: None)
    monkeypatch.setattr(perform, "setproctitle", lambda _title: None)
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield made
    for number, handler in before.items():
        signal.signal(number, handler)


def ending_with(monkeypatch: pytest.MonkeyPatch, main: Main) -> None:
    """Let every role be `main`."""
    monkeypatch.setattr(perform.ROLES, "get", lambda _role: main)


def test_a_trainer_that_came_to_its_end_has_finished_whatever_was_asked(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def main(_run_dir: str, attempt: int) -> int:
        stop.request(run, attempt, "train received SIGINT")
        return 0

    ending_with(monkeypatch, main)
    assert entry.run_role(str(run.path), "train", 1) == 0
    assert stop.is_finished(run)
    assert read_all(run.heartbeats)["train"].finished


def test_the_supervisor_is_told_of_a_stop_by_the_status(
    run: RunDir, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ending_with(monkeypatch, lambda _run_dir, _attempt: os.EX_TEMPFAIL)
    with pytest.raises(SystemExit) as ended:
        entry.run_role(str(run.path), "train", 1)
    assert ended.value.code == os.EX_TEMPFAIL
    assert not stop.is_finished(run)
    assert read_all(run.heartbeats)["train"].finished
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_stops_both_roles_through_the_stop_file(
    run: RunDir, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    def main(_run_dir: str, attempt: int) -> int:
        os.kill(os.getpid(), number)
        assert stop.is_requested(run, attempt)
        return 0

    ending_with(monkeypatch, main)
    entry.run_role(str(run.path), "synthesis", 1)
    request = stop.read(run)
    assert request is not None
    assert request.reason == f"synthesis received {number.name}"


def test_the_synthesis_never_finishes_the_run(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    ending_with(monkeypatch, lambda _run_dir, _attempt: 0)
    assert entry.run_role(str(run.path), "synthesis", 1) == 0
    assert not stop.is_finished(run)


def test_a_signal_while_the_process_ends_does_not_change_its_status(run: RunDir) -> None:
    """Slurm's warning may come when all is done: the job must not count as failed."""
    code = f"""
import atexit, os, signal, sys
from rods.exchange import stop
from rods.roles import entry, perform
atexit.register(lambda: [os.kill(os.getpid(), n) for n in (signal.SIGTERM, signal.SIGUSR2)])
class Late:
    def __del__(self):  # when Python has taken the handlers off
        os.kill(os.getpid(), signal.SIGUSR2)
sys.late = Late()
perform.snapshot.verify = perform.snapshot.check_origin = lambda run: None
perform.ROLES.get = lambda role: lambda run_dir, attempt: 0
entry.Companion.__init__ = lambda self, run, role, attempt: None
entry.Companion.run = lambda self: 0
sys.exit(entry.run_slurm_role({str(run.path)!r}))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"RODS_ROLE": "synthesis", "RODS_ATTEMPT": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_full_disk_is_a_sentence(
    run: RunDir, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(_run_dir: str, _attempt: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", "checkpoints/step_000010")

    ending_with(monkeypatch, main)
    with pytest.raises(SystemExit) as ended:
        entry.run_role(str(run.path), "train", 1)
    assert ended.value.code == 1
    assert "No space left on device: 'checkpoints/step_000010'" in capsys.readouterr().err
    assert not stop.is_finished(run)


@pytest.mark.parametrize("arguments", [["nowhere"], ["nowhere", "train", "1"]])
def test_a_folder_that_is_no_run_is_a_sentence(arguments: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rods.roles.entry", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "not a RODS run directory" in done.stderr
    assert "Traceback" not in done.stderr
