"""The driver with real processes that stand for runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from benchmarks.study import __main__ as command
from benchmarks.study import driver
from benchmarks.study.driver import Driver
from benchmarks.study.job import StudyError

ENDS = "import sys, time; time.sleep(0.2); open(sys.argv[1], 'w')"
FAILS = "import sys; sys.exit(3)"
WAITS = "import sys, time; open(sys.argv[1] + '.begun', 'w'); time.sleep(60)"


@dataclass
class Stand:
    """A run that is a few lines of Python: it is finished when its file is there."""

    name: str
    folder: Path
    code: str = ENDS
    seconds: float = 0.0
    kept: list[str] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None

    @property
    def finished(self) -> bool:
        return self.output.is_file()

    @property
    def output(self) -> Path:
        return self.folder / self.name

    def start(self, inherited: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-S", "-c", self.code, str(self.output)]
        self.process = subprocess.Popen(command, pass_fds=[inherited], stderr=subprocess.DEVNULL)
        return self.process

    def took(self, seconds: float, load: float) -> None:
        assert load >= 0
        self.seconds += seconds

    def keep(self) -> Path:
        self.kept.append(self.name)
        return self.output


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_POLL_S", 0.01)


def made(tmp_path: Path, sites: list[Stand], jobs: int = 2, hours: float = 1.0) -> tuple[int, list[str]]:
    said: list[str] = []
    failed = Driver(tmp_path / "runs", jobs, hours, said.append).run(sites)
    return failed, said


def test_every_run_is_made_once_and_kept(tmp_path: Path) -> None:
    sites = [Stand(f"run{number}", tmp_path) for number in range(5)]
    failed, said = made(tmp_path, sites)
    assert failed == 0
    assert [site.kept for site in sites] == [[site.name] for site in sites]
    assert all(site.seconds >= 0.2 for site in sites)
    assert [line.split(":")[0] for line in said if "begun" in line] == [site.name for site in sites]


def test_a_finished_run_is_kept_without_being_started(tmp_path: Path) -> None:
    site = Stand("run", tmp_path, code=FAILS)
    site.output.touch()
    assert made(tmp_path, [site])[0] == 0
    assert site.kept == ["run"]
    assert site.process is None


def test_a_run_that_fails_is_said_and_the_others_go_on(tmp_path: Path) -> None:
    sites = [Stand("bad", tmp_path, code=FAILS), Stand("good", tmp_path)]
    failed, said = made(tmp_path, sites, jobs=1)
    assert failed == 1
    assert any("bad: failed: ended with status 3" in line for line in said)
    assert sites[1].kept == ["good"]


@dataclass
class Broken(Stand):
    """A run whose place on disk is not what it should be, or full, where `breaks` says."""

    breaks: str = ""

    @property
    def finished(self) -> bool:
        self._break("finished")
        return super().finished

    def start(self, inherited: int) -> subprocess.Popen[bytes]:
        self._break("start")
        return super().start(inherited)

    def took(self, seconds: float, load: float) -> None:
        self._break("took")
        super().took(seconds, load)

    def keep(self) -> Path:
        self._break("keep")
        return super().keep()

    def _break(self, where: str) -> None:
        if where == self.breaks:
            raise OSError(28, f"No space left on device: {where}")


@pytest.mark.parametrize("where", ["finished", "start", "took", "keep"])
def test_a_run_that_cannot_be_begun_or_kept_leaves_no_other_alone(tmp_path: Path, where: str) -> None:
    sites = [Stand("first", tmp_path), Broken("bad", tmp_path, breaks=where), Stand("last", tmp_path)]
    failed, said = made(tmp_path, sites)
    assert failed == 1
    assert [line for line in said if "failed" in line] == [
        f"bad: failed: [Errno 28] No space left on device: {where}"
    ]
    assert sites[0].kept == ["first"]
    assert sites[2].kept == ["last"]


@pytest.mark.parametrize(
    "words",
    [
        ["--jobs", "0"],
        ["--jobs", "two"],
        ["--hours", "nan"],
        ["--hours", "-1"],
        ["--seeds", "4-0"],
        ["--seeds", "1-x"],
    ],
)
def test_words_that_would_make_no_run_or_wait_for_ever_are_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["run", *words])
    assert ended.value.code == 2
    assert f"argument {words[0]}" in capsys.readouterr().err


def test_a_folder_that_cannot_be_is_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    words = [
        "--arms",
        "static",
        "--seeds",
        "0",
        "--results",
        str(tmp_path),
        "--dir",
        str(tmp_path / "file" / "x"),
    ]
    assert command.main(["run", *words]) == 2
    assert str(tmp_path / "file") in capsys.readouterr().err


def test_at_the_end_of_the_time_runs_are_interrupted_and_no_other_is_begun(tmp_path: Path) -> None:
    sites = [Stand("long", tmp_path, code=WAITS), Stand("next", tmp_path)]
    failed, said = made(tmp_path, sites, jobs=1, hours=0.5 / 3600)
    assert failed == 0
    assert sites[0].process is not None
    assert sites[0].process.returncode != 0
    assert sites[1].process is None
    assert any(line == "long: interrupted" for line in said)
    assert said[-1] == "stopped; 1 runs were not begun"


def asked_once_begun(folder: Path, number: signal.Signals) -> threading.Thread:
    def ask() -> None:
        while not (folder / "long.begun").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    asking = threading.Thread(target=ask)
    asking.start()
    return asking


def test_a_signal_interrupts_the_runs_and_the_handlers_are_put_back(tmp_path: Path) -> None:
    site = Stand("long", tmp_path, code=WAITS)
    before = signal.getsignal(signal.SIGTERM)

    asking = asked_once_begun(tmp_path, signal.SIGTERM)
    failed, said = made(tmp_path, [site])
    asking.join()
    assert failed == 0
    assert "long: interrupted" in said
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_command_that_was_interrupted_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "Site", lambda folder, results, job: Stand("long", tmp_path, code=WAITS))
    words = ["--arms", "static", "--seeds", "0", "--results", str(tmp_path), "--dir", str(tmp_path)]
    asking = asked_once_begun(tmp_path, signal.SIGINT)
    assert command.main(["run", *words]) == 130
    asking.join()
    assert "interrupting 1 runs" in capsys.readouterr().out


def test_a_run_whose_driver_was_killed_keeps_the_next_driver_out(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from pathlib import Path; from test_study_driver import *;"
        "site = Stand('long', Path(sys.argv[2]), code=WAITS);"
        "Driver(Path(sys.argv[2]) / 'runs', 1, 1.0, print).run([site])"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent), str(tmp_path)]
    root = str(Path(driver.__file__).parents[2])
    first = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": root}, stdout=subprocess.DEVNULL)
    while not (tmp_path / "long.begun").exists():
        assert first.poll() is None
        time.sleep(0.02)
    (left,) = _children(first.pid)
    first.kill()
    first.wait()
    try:
        with pytest.raises(StudyError, match="left behind"):
            made(tmp_path, [Stand("run", tmp_path)])
    finally:
        os.kill(left, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            assert made(tmp_path, [Stand("run", tmp_path)])[0] == 0
            return
        except StudyError:
            time.sleep(0.05)
    pytest.fail("the folder stayed locked")


def _children(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
