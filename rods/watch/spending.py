"""What a run cost, from accounting where there is one, else from its directory."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from launchers import scheduler, started
from launchers.cost import ACCOUNTING, DIRECTORY, Cost, Progress, Span, Step, cost, energy_j, spans_of_jobs
from launchers.jobs import SubmittedJob
from launchers.resources import SYNTHESIS, TRAIN
from launchers.scheduler import Record, Scheduler
from rods.exchange import owner, stop
from rods.exchange.atomic import CorruptFileError
from rods.exchange.heartbeat import read_all
from rods.exchange.marker import MARKER, Name
from rods.exchange.metrics import read_metrics
from rods.exchange.rundir import RunDir

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times as fast, where it was built in


def read(run: RunDir, slurm: Scheduler | None = None) -> Cost:
    """The account of `run` now.

    Args:
        slurm: who is asked; default: this process's scheduler.

    Raises:
        RodsError, OSError: the frozen configuration or a list of the run cannot be read.
    """
    return read_many([run], slurm)[0]


def read_many(runs: Sequence[RunDir], slurm: Scheduler | None = None) -> list[Cost]:
    """`read` of each, with one question to accounting."""
    asked = (slurm or scheduler.HERE).starts
    submitted = [started.of_run(run) for run in runs]
    starts, trouble = asked([job.job_id for jobs in submitted for job in jobs])
    return [_account(run, jobs, starts, trouble) for run, jobs in zip(runs, submitted, strict=True)]


def _account(run: RunDir, jobs: list[SubmittedJob], starts: Mapping[str, list[Record]], trouble: str) -> Cost:
    limit_hours, gpus = _allocations(run)
    own = {job.job_id: starts[job.job_id] for job in jobs}
    booked = any(own.values())
    spans = spans_of_jobs(jobs, own) if booked else spans_of_directory(run, gpus)
    return cost(
        run.name,
        ACCOUNTING if booked else DIRECTORY,
        spans,
        gpus,
        progress(run),
        time.time(),
        limit_hours=limit_hours,
        energy_j=energy_j(own),
        trouble="" if booked or not jobs else trouble or "accounting does not know the run's jobs",
    )


def progress(run: RunDir) -> Progress:
    """How far the run came, from the trainer's metrics and the checkpoints."""
    lines = read_metrics(run.metrics / "train.jsonl")
    steps = tuple(Step(int(line["step"]), float(line["time"])) for line in lines if "time" in line)
    names = [Name.parse(path.parent.name) for path in run.checkpoints.glob(f"step_*/{MARKER}")]
    return Progress(steps, max((name.step for name in names if name), default=0), stop.is_finished(run))


def spans_of_directory(run: RunDir, roles: Mapping[str, int]) -> list[Span]:
    """When each attempt first and last wrote anything; the newest one goes on while a role gives signs of life.

    Args:
        roles: GPUs by role. Daemons that were added have starts of their own, which are not counted.
    """
    numbers = sorted(int(path.name) for path in run.attempts.glob("[0-9]*") if path.name.isdigit())
    written = [_times(run.attempt_dir(number)) for number in numbers]
    steps = [step.time for step in progress(run).steps]
    spans: list[Span] = []
    for index, number in enumerate(numbers):
        last = index == len(numbers) - 1
        # Later starts write here too: how this one ended, when it could not say so itself, and what they print.
        until = math.inf if last else min(written[index + 1])
        own = [moment for moment in [*written[index], *steps] if min(written[index]) <= moment <= until]
        end = None if last and _goes_on(run, number) else max(own, default=min(written[index]))
        spans += [Span(role, number, gpus, min(written[index]), end) for role, gpus in roles.items()]
    return spans


def _goes_on(run: RunDir, attempt: int) -> bool:
    if (run.attempt_dir(attempt) / "outcome.json").exists():
        return False
    beats = read_all(run.heartbeats).values()
    return any(owner.is_alive(beat, owner.DEFAULT_TIMEOUT_S) for beat in beats)


def _times(folder: Path) -> list[float]:
    """When the files of an attempt's folder were last written; the folder's own time where it has none."""
    files = [path.stat().st_mtime for path in folder.rglob("*") if path.is_file()]
    return files or [folder.stat().st_mtime]


def _allocations(run: RunDir) -> tuple[float | None, dict[str, int]]:
    """The time limit in hours, None on this machine, and each role's GPUs, from the frozen configuration.

    Read as plain YAML: the whole schema takes a hundred times as long, and a list of runs has many of them.
    """
    body = yaml.load(run.config_file.read_bytes(), Loader=_Loader)
    try:
        cluster = body["cluster"]
        roles = (TRAIN, SYNTHESIS) if body["synthesis"]["enabled"] else (TRAIN,)
        gpus = {role: int(cluster[role]["nodes"]) * int(cluster[role]["gpus_per_node"]) for role in roles}
        return float(cluster["time_hours"]) if cluster["kind"] == "slurm" else None, gpus
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(
            f"{run.config_file}: expected a frozen configuration, found {type(error).__name__}: {error} in it"
        ) from error
