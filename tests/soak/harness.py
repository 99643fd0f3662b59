"""Kill, resume, kill again, and compare with the run that nobody touched."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from faults import Fault

from launchers import snapshot
from launchers.identity import config_hash
from rods import tasks as task_sources
from rods.config import Config, from_mapping
from rods.curriculum.events import parse_event
from rods.curriculum.state import fold, initial
from rods.exchange import stop
from rods.exchange.atomic import read_json
from rods.exchange.lineage import history
from rods.exchange.rundir import RunDir
from soak import policy
from soak.processes import REFUSED, SUPERVISOR, SYNTHESIS, TRAIN, VICTIMS, is_running, noted, pids_folder

ROOT = Path(__file__).parents[2]
POLL_S = 0.02
PATIENCE_S = 180.0  # for one attempt; a longer one hangs
MOMENTS = ("before", "within", "after")
# A supervisor makes few calls, most of them at its start: aimed at as often, it would die there half the time.
AIMS = (TRAIN, TRAIN, SYNTHESIS, SYNTHESIS, SUPERVISOR)
KILLS_PER_RUN = 60
MOST_CALLS = {TRAIN: 400, SYNTHESIS: 200, SUPERVISOR: 60}


def soak_config(seed: int = 0, **changes: Any) -> Config:
    """A run of some seconds in which everything happens: seeds, variants, injections, retirements, evaluations."""
    kinds = ("base", "miss_func", "miss_param", "long_context")
    settings: dict[str, Any] = {
        "experiment": "soak",
        "seed": seed,
        "tasks": {"source": "scripted", "train_count": 18, "heldout_count": 4},
        "training": {
            "epochs": 8,
            "tasks_per_step": 4,
            "group_size": 4,
            "checkpoint_every_steps": 2,
            "evaluate_every_epochs": 2,
        },
        "boundary": {"max_seeds": 4, "quotas": dict.fromkeys(kinds, 2), "exclusion_steps": 4},
        "buffer": {"capacity": 12, "injection_fraction": 0.3, "barrier": True},
        "synthesis": {"workers": 4},
        "exchange": {"lease_s": 1.5, "max_deliveries": 9999},
        "tracking": {"wandb": "disabled"},
        "launch": {"heartbeat_timeout_s": 60.0},
    }
    for key, value in changes.items():
        settings[key] = {**settings.get(key, {}), **value}
    return from_mapping(settings)


class Nursery:
    """The process that forks supervisors; its code is one frozen copy that all runs share."""

    def __init__(self, folder: Path) -> None:
        self.code = folder / "code"
        ignore = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")
        for package in snapshot.PACKAGES:
            shutil.copytree(ROOT / package, self.code / package, ignore=ignore)
        environment = {
            **os.environ,
            "PYTHONPATH": f"{self.code}:{ROOT / 'tests'}",
            "PYTHONSAFEPATH": "1",
            "OMP_NUM_THREADS": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "soak.nursery"],
            env=environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def create(self, runs_dir: Path, config: Config) -> RunDir:
        """A frozen run directory, ready to be continued."""
        run = RunDir.create(runs_dir, config.experiment, config_hash(config))
        shutil.rmtree(run.code, ignore_errors=True)
        run.code.symlink_to(self.code)
        (run.path / snapshot.ENVIRONMENT_FILE).write_text("the soak's\n")
        run.update_manifest(overrides=[])
        snapshot.freeze_config(run, config)
        pids_folder(run.path).mkdir()
        return run

    def start(self, run: RunDir, victim: str = "", fault: Fault | None = None) -> int:
        """Fork a supervisor that continues `run`; its process id."""
        for path in pids_folder(run.path).iterdir():
            path.unlink()
        request = {"run": str(run.path), "victim": victim, "fault": asdict(fault) if fault else None}
        return int(self._ask({"start": request})["pid"])

    def start_role(self, run: RunDir, role: str, attempt: int, fault: Fault | None = None) -> int:
        """Fork one role without a supervisor; its process id. Its log: `attempts/<attempt>-<role>.err`."""
        body = {
            "run": str(run.path),
            "role": role,
            "attempt": attempt,
            "fault": asdict(fault) if fault else None,
        }
        return int(self._ask({"role": body})["pid"])

    def wait(self, pid: int, within_s: float = PATIENCE_S) -> int:
        """The exit status of a process that was started here."""
        deadline = time.monotonic() + within_s
        while (status := self.poll(pid)) is None:
            assert time.monotonic() < deadline, f"process {pid}: not at its end after {within_s} s"
            time.sleep(POLL_S)
        return status

    def poll(self, pid: int) -> int | None:
        """The supervisor's exit status; negative after a signal; None while it runs."""
        status: int | None = self._ask({"poll": pid})["status"]
        return status

    def finish(self, run: RunDir, within_s: float = PATIENCE_S) -> int:
        """Run undisturbed; the exit status."""
        return self.wait(self.start(run), within_s)

    def close(self) -> None:
        """End the process; the supervisors it forked have ended by now."""
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait(timeout=30)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self._process.stdin.write(json.dumps(request) + "\n")  # type: ignore[union-attr]
        self._process.stdin.flush()  # type: ignore[union-attr]
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise RuntimeError(f"the nursery ended with {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@dataclass
class Tally:
    """What was done to the runs."""

    kills: int = 0
    attempts: int = 0
    refused: int = 0
    by_victim: Counter[str] = field(default_factory=Counter)
    by_mode: Counter[str] = field(default_factory=Counter)
    by_point: Counter[str] = field(default_factory=Counter)

    def killed(self, victim: str, mode: str, point: str = "") -> None:
        """Count one death."""
        self.kills += 1
        self.by_victim[victim] += 1
        self.by_mode[mode] += 1
        if point:
            self.by_point[point] += 1

    def summary(self) -> dict[str, Any]:
        """As JSON."""
        return {
            key: dict(value) if isinstance(value, Counter) else value for key, value in vars(self).items()
        }


@dataclass
class Killer:
    """Continues one run under fire."""

    nursery: Nursery
    run: RunDir
    rng: random.Random
    tally: Tally

    def attempt(self) -> bool:
        """One attempt with a fault point in one process and a shot at another; whether the run is finished."""
        aimed, shot = self.rng.choice(AIMS), self.rng.choice(VICTIMS)
        report = self.run.path.with_name(f"{self.run.name}.report")
        report.unlink(missing_ok=True)
        # Spread over orders of magnitude: the first calls of a start matter as much as those of a late step.
        number = round(MOST_CALLS[aimed] ** self.rng.random())
        fault = Fault(
            "kill",
            at=number,
            moment=self.rng.choice(MOMENTS),
            path=f"{self.run.path}/*",
            report=str(report),
        )
        pid = self.nursery.start(self.run, aimed, fault)
        self.tally.attempts += 1
        status = self._follow(pid, shot, self.rng.uniform(0.3, 1.5))
        if status == REFUSED:
            self.tally.refused += 1
        for line in report.read_text().splitlines() if report.exists() else ():
            point = json.loads(line)
            self.tally.killed(aimed, "point", f"{point['moment']} {point['operation']}")
        return status == 0

    def _follow(self, pid: int, shot: str, after_s: float) -> int:
        started, fired = time.monotonic(), False
        while (status := self.nursery.poll(pid)) is None:
            up = time.monotonic() - started
            assert up < PATIENCE_S, f"{self.run.path}: the attempt hangs"
            if not fired and up > after_s:
                fired = self._fire(shot)
            time.sleep(POLL_S)
        return status

    def _fire(self, victim: str) -> bool:
        pid = noted(self.run.path).get(victim)
        if not pid or not is_running(pid):
            return False
        os.kill(pid, signal.SIGKILL)
        self.tally.killed(victim, "time")
        return True


def soak(nursery: Nursery, folder: Path, kills: int, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Rounds of (straight run, killed run) until there were `kills` deaths; a JSON summary."""
    rng, tally, rounds = random.Random(seed), Tally(), []
    while tally.kills < kills:
        config = soak_config(seed=len(rounds))
        straight, crashed = (nursery.create(folder, config) for _ in range(2))
        assert nursery.finish(straight) == 0, supervisor_log(straight)
        before = tally.kills
        killer = Killer(nursery, crashed, rng, tally)
        most = min(kills, before + KILLS_PER_RUN)
        while tally.kills < most and not stop.is_finished(crashed):
            killer.attempt()
            say(f"round {len(rounds) + 1}: {tally.kills} kills, {tally.attempts} attempts")
        finish(nursery, crashed)
        rounds.append(
            {
                "kills": tally.kills - before,
                "attempts": crashed.last_attempt(),
                "differences": differences(straight, crashed),
                "run": str(crashed.path),
            }
        )
    return tally.summary() | {"equal": not any(each["differences"] for each in rounds), "rounds": rounds}


def finish(nursery: Nursery, run: RunDir) -> None:
    """Bring a run to its end; a resume is refused while what a kill left behind is still stopping."""
    deadline = time.monotonic() + PATIENCE_S
    while not stop.is_finished(run):
        status = nursery.finish(run)
        assert status in (0, REFUSED), f"undisturbed, the run ended with {status}: {supervisor_log(run)}"
        assert time.monotonic() < deadline, supervisor_log(run)


def supervisor_log(run: RunDir) -> str:
    """The end of what the supervisors printed."""
    return run.path.with_name(f"{run.name}-supervisor.out").read_text()[-3000:]


def differences(one: RunDir, other: RunDir) -> list[str]:
    """In what the results of two runs differ; empty when they are equal."""
    first, second = results(one), results(other)
    return [key for key in first if first[key] != second[key]]


def results(run: RunDir) -> dict[str, Any]:
    """All that a finished run leaves to others, wall time and attempts left out."""
    config = snapshot.load_config(run)
    records = history(run.journal_dir, "train")
    # Each start writes one; nothing follows from it.
    deeds = [record for record in records if record["name"] != "run_started"]
    seeds = task_sources.load(config.tasks).train
    state = fold(initial(seeds, config.boundary, config.buffer), map(parse_event, records))
    emitted = sorted(record["key"] for record in deeds if record["name"] == "seed_emitted")
    return {
        "deeds": deeds,
        "state": state.digest(),
        "policy": read_json(run.path / "policy" / policy.STATE),
        "expanded": {path.name: _sha256(path) for path in sorted(run.expanded.iterdir())},
        "emitted": emitted,
        "answers": answers(run),
        "unanswered": sorted(set(emitted) - set(answers(run))),
        "closed": sorted(record["key"] for record in deeds if record["name"] == "seed_closed"),
        "finished": stop.is_finished(run),
    }


def answers(run: RunDir) -> list[str]:
    """Keys of all answers, as often as there are files that hold one.

    An answer whose taker died between the journal and the commit stays claimed; the journal has it.
    """
    queue = run.queue("variants")
    return sorted(key for state in ("ready", "claimed", "done", "quarantine") for key in queue.keys(state))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
