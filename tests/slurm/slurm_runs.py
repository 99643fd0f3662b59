"""Runs of the tiny experiment on the private cluster: how to start, hold, hurt and look at one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.load import load
from launchers import jobs
from rods.exchange import stop
from rods.exchange.atomic import read_json
from rods.exchange.metrics import read_metrics
from rods.exchange.rundir import RunDir

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 400.0
OVERRIDES = (
    "+experiment=rods_tiny",
    "cluster=slurm_test",
    "rollout.engine=hf",
    "training.epochs=2",
    "training.group_size=4",
    "training.tasks_per_step=6",
    "training.threads=1",
    "tasks.train_count=12",
    "tasks.heldout_count=0",
    "boundary.exclusion_steps=2",
    "tracking.wandb=disabled",
)
SEED = "seed=3"
STATIC = (
    "synthesis.enabled=false",
    "training.epochs=1",
    "tasks.train_count=6",
)  # a trainer alone, for seconds


def launch(cluster: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """launch.py as a user on the login node calls it."""
    return subprocess.run(
        [sys.executable, "launch.py", *OVERRIDES, *arguments],
        cwd=ROOT,
        env=cluster,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def rods(cluster: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """The `rods` command."""
    return subprocess.run(
        [sys.executable, "-c", "from rods.cli import main; main()", *arguments],
        cwd=ROOT,
        env=cluster,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@dataclass
class Run:
    """A submitted run, and what a scenario has noted of it."""

    cluster: dict[str, str]
    path: Path
    output: str
    notes: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def start(cls, cluster: dict[str, str], folder: Path, *more: str, mode: str = "submit") -> Run:
        """Submit one run into `folder`."""
        done = launch(cluster, f"launch.runs_dir={folder}", f"launch.mode={mode}", SEED, *more)
        assert done.returncode == 0, done.stdout + done.stderr
        (path,) = folder.iterdir()
        return cls(cluster, path, done.stdout)

    def resume(self) -> None:
        """Continue it as the command that `rods status` and the reports name would."""
        overrides = read_json(self.path / "manifest.json")["overrides"]
        own = [text for text in overrides if text not in OVERRIDES]
        done = launch(self.cluster, *own, f"launch.resume={self.path}")
        assert done.returncode == 0, done.stdout + done.stderr

    @property
    def dir(self) -> RunDir:
        """Its directory."""
        return RunDir.open(self.path)

    def job(self, role: str = "train") -> str:
        """The newest job that holds `role`."""
        return [job.job_id for job in jobs.read(self.dir) if role in job.roles][-1]

    def slurm(self, *command: str) -> str:
        """What one of Slurm's commands prints."""
        return subprocess.run(
            command, env=self.cluster, capture_output=True, text=True, timeout=30, check=True
        ).stdout

    def starts(self, role: str = "train") -> list[list[str]]:
        """State, nodes and GPUs of each component in each start of the role's job, oldest first, from accounting."""
        text = self.slurm(
            *("sacct", "-X", "-n", "-P", "--duplicates", "-j", self.job(role)),
            *("-o", "jobid,state,nodelist,alloctres"),
        )
        return [line.split("|") for line in text.splitlines()]

    def until_accounted(self, role: str) -> None:
        """Wait until accounting has the job's end too: it hears of it after the queue and the run's own files."""
        going = {"PENDING", "RUNNING", "COMPLETING"}
        self.until(lambda: not going & {row[1] for row in self.starts(role)}, "accounting's word")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for `condition`; a bound so that a broken test ends and says what it saw."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}. {self.errors()}"
            time.sleep(0.2)

    def until_over(self) -> None:
        """Wait until no job of the run is in the queue."""
        ids = ",".join(job.job_id for job in jobs.read(self.dir))
        self.until(lambda: not self.slurm("squeue", "-h", "-j", ids, "-o", "%i").strip(), "the jobs' end")

    def until_trained(self) -> None:
        """Wait for the first training step."""
        metrics = self.path / "metrics" / "train.jsonl"
        self.until(lambda: any("loss" in line for line in read_metrics(metrics)), "a training step")

    def until_attempt(self, number: int) -> None:
        """Wait for the start of an attempt's trainer."""
        file = self.path / "attempts" / f"{number:04d}" / "train.out"
        self.until(file.exists, f"attempt {number}")

    def process(self, role: str) -> int:
        """The process id of a role, as soon as there is one."""
        found: list[int] = []
        self.until(lambda: bool(found.extend(_titled(f"rods-{role}:{self.path.name}")) or found), role)
        return found[0]

    def hold(self) -> None:
        """Stop the synthesis in its tracks: its trainer then waits at the epoch's end, and cannot finish."""
        self.until((self.path / "heartbeats" / "synthesis.json").exists, "the synthesis")
        os.kill(self.process("synthesis"), signal.SIGSTOP)

    def outcome(self, attempt: int, series: str = "") -> dict[str, Any]:
        """How an attempt ended; empty when nothing was recorded."""
        file = self.path / "attempts" / series / f"{attempt:04d}" / "outcome.json"
        body: dict[str, Any] = read_json(file) if file.exists() else {}
        return body

    def attempts(self, series: str = "") -> list[str]:
        """The attempts that were begun."""
        folder = self.path / "attempts" / series
        return sorted(file.parent.name for file in folder.glob("[0-9]*/start"))

    def finished(self) -> bool:
        """Whether the trainer came to its end."""
        return stop.is_finished(self.dir)

    def deeds(self) -> list[dict[str, Any]]:
        """The history that the journals agree on, without the marks of a start."""
        return [event for event in load(self.path).events if event["name"] != "run_started"]

    def status(self) -> dict[str, Any]:
        """What `rods status --json` says."""
        done = rods(self.cluster, "status", str(self.path), "--json")
        assert done.returncode == 0, done.stderr
        body: dict[str, Any] = json.loads(done.stdout)
        return body

    def errors(self) -> list[str]:
        """The ends of all error outputs, and what Slurm has in its queue: for a test's message."""
        files = sorted(self.path.glob("attempts/**/*.err"))
        return [self.slurm("squeue"), *(f"{file.name}: {file.read_text()[-1500:]}" for file in files)]


def processes_on(node: str, conf: str) -> list[int]:
    """What Slurm runs on a virtual node: each task after the slurmstepd that looks after it."""
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = file.read_bytes().split(b"\0")
            parent = int((file.parent / "stat").read_text().rsplit(")", 1)[1].split()[1])
            name = Path(f"/proc/{parent}/comm").read_text().strip()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if {f"SLURMD_NODENAME={node}".encode(), f"SLURM_CONF={conf}".encode()} <= set(variables):
            found += [*([parent] if name == "slurmstepd" else []), int(file.parent.name)]
    return list(dict.fromkeys(found))


def _titled(title: str) -> list[int]:
    """Processes with this title."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if words[0].decode(errors="replace") == title:
            found.append(int(file.parent.name))
    return found
