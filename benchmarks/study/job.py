"""One run of the study: where it lies, how it is started or continued, and what is kept of it when it is over."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.study import plan, summary, world
from benchmarks.study.arms import Arm
from benchmarks.study.measure import Made, measure
from benchmarks.study.summary import Identity
from rods.errors import RodsError
from rods.exchange import stop
from rods.exchange.atomic import make_dirs, read_json, write_json
from rods.exchange.marker import MARKER
from rods.exchange.rundir import RunDir

ROOT = Path(__file__).parents[2]
_NOTE = "study.json"
_OUTPUT = "launch.out"
_RESUME = "from rods.cli import main; main()"
# What the study writes itself is no change of the code that its runs are made by.
_WRITTEN = (":!benchmarks/study/results", ":!benchmarks/study/trials", ":!docs", ":!analysis/headline.json")


class StudyError(RodsError):
    """The study cannot go on."""


@dataclass(frozen=True)
class Job:
    """One run to make.

    Attributes:
        identity: what it must be; a run begun as something else is thrown away.
    """

    arm: Arm
    seed: int
    identity: Identity

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.arm.name}, seed {self.seed}"

    def done(self, results: Path) -> bool:
        """Whether there is a summary of this very run.

        Raises:
            SummaryError: there is something else.
        """
        file = summary.path(results, self.arm.name, self.seed)
        return file.is_file() and summary.read(file).identity == self.identity


def planned(arms: Sequence[Arm], seeds: Sequence[int]) -> Iterator[Job]:
    """Seed by seed, so that what is finished at any time is balanced."""
    return (Job(arm, seed, plan.identity(arm, seed)) for seed in seeds for arm in arms)


class Site:
    """A job's place on disk.

    Args:
        folder: of all runs.
        results: of the summaries.
        job: which.
    """

    def __init__(self, folder: Path, results: Path, job: Job) -> None:
        folder = folder.resolve()
        self.job, self.name = job, job.name
        self._results = results
        self._data = folder / "data"
        self._place = folder / job.arm.name / f"seed_{job.seed}"
        self._note = self._place / _NOTE

    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        found = self._run()
        return found is not None and stop.is_finished(found)

    @property
    def output(self) -> Path:
        """What launch.py said."""
        return self._place / _OUTPUT

    def start(self, inherited: int) -> subprocess.Popen[bytes]:
        """Continue the run from its last checkpoint; one without, or one that was begun as another, begins anew.

        Args:
            inherited: a file descriptor that lives as long as the run does.
        """
        found = self._run()
        if found is None or not any(found.checkpoints.glob(f"*/{MARKER}")):
            shutil.rmtree(self._place, ignore_errors=True)
            found = None
        make_dirs(self._place)
        if found is None:
            self._write(commit(), 0.0, 0.0)
            data = world.write(self._data, self.job.seed)
            own = plan.overrides(self.job.arm, self.job.seed, data)
            command = ["launch.py", *own, f"launch.runs_dir={self._place}"]
        else:
            command = ["-c", _RESUME, "resume", str(found.path), "launch.mode=wait"]
        with self.output.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C at the terminal reaches it through the driver alone
                pass_fds=[inherited],
            )

    def took(self, seconds: float, load: float) -> None:
        """Add to the seconds that the run took; `load`: the machine's load average meanwhile."""
        note = self._noted()
        self._write(note["commit"], note["seconds"] + seconds, note["load_seconds"] + load * seconds)

    def keep(self) -> Path:
        """Write the finished run's summary; its checkpoints are let go.

        Raises:
            StudyError: there is no run.
            RodsError: it cannot be measured.
        """
        found = self._run()
        if found is None:
            raise StudyError(f"{self._place}: expected a run directory, found none; see {self.output}")
        job, note = self.job, self._noted()
        seconds = note["seconds"]
        load = note["load_seconds"] / seconds if seconds else 0.0
        made = Made(note["commit"], machine(), round(seconds, 1), round(load, 1))
        kept = measure(found.path, job.arm.name, job.seed, job.identity, made)
        path = summary.write(self._results, kept)
        shutil.rmtree(found.checkpoints, ignore_errors=True)
        return path

    def _run(self) -> RunDir | None:
        """The run directory, unless it is that of a run with another identity."""
        if self._noted()["identity"] != msgspec.to_builtins(self.job.identity):
            return None
        found = sorted(self._place.glob("*/manifest.json"))
        return RunDir.open(found[0].parent) if found else None

    def _noted(self) -> dict[str, Any]:
        return dict(read_json(self._note)) if self._note.is_file() else {"identity": None}

    def _write(self, commit: str, seconds: float, load_seconds: float) -> None:
        took = {"seconds": seconds, "load_seconds": load_seconds}
        write_json(self._note, {"identity": msgspec.to_builtins(self.job.identity), "commit": commit, **took})


def commit() -> str:
    """The commit of this code, with a + where files were changed since; "unknown" outside of git."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        return head + (
            "+" if _git("status", "--porcelain", "--untracked-files=no", "--", ".", *_WRITTEN) else ""
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


@cache
def machine() -> str:
    """Processor and cores."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()
