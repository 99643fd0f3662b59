"""What a run cost, from accounting where there is one, else from its directory."""

from __future__ import annotations

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
    time_hours, roles = _allocations(run)
    planned = {role: gpus * time_hours for role, gpus in roles.items()}
    own = {job.job_id: starts[job.job_id] for job in jobs}
    booked = any(own.values())
    spans = spans_of_jobs(jobs, own) if booked else spans_of_directory(run, roles)
    return cost(
        run.name,
        ACCOUNTING if booked else DIRECTORY,
        spans,
        planned,
        progress(run),
        time.time(),
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
    """When each attempt first and last wrote a file; the newest one goes on while a role gives signs of life.

    Args:
        roles: GPUs by role.
    """
    numbers = sorted(int(path.name) for path in run.attempts.glob("[0-9]*") if path.name.isdigit())
    beats = read_all(run.heartbeats).values()
    alive = any(owner.is_alive(beat, owner.DEFAULT_TIMEOUT_S) for beat in beats)
    spans: list[Span] = []
    for number in numbers:
        begin, end = _times(run.attempt_dir(number))
        goes_on = alive and number == numbers[-1] and not (run.attempt_dir(number) / "outcome.json").exists()
        spans += [Span(role, number, gpus, begin, None if goes_on else end) for role, gpus in roles.items()]
    return spans


def _times(folder: Path) -> tuple[float, float]:
    """The oldest and the newest time of change of an attempt's files.

    A batch script logs where its file lies, in the first attempt's folder, also for the attempts after.
    """
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("slurm-")]
    times = [path.stat().st_mtime for path in files] or [folder.stat().st_mtime]
    return min(times), max(times)


def _allocations(run: RunDir) -> tuple[float, dict[str, int]]:
    """The time limit in hours and each role's GPUs, from the frozen configuration.

    Read as plain YAML: the whole schema takes a hundred times as long, and a list of runs has many of them.
    """
    body = yaml.load(run.config_file.read_bytes(), Loader=_Loader)
    try:
        cluster = body["cluster"]
        roles = (TRAIN, SYNTHESIS) if body["synthesis"]["enabled"] else (TRAIN,)
        gpus = {role: int(cluster[role]["nodes"]) * int(cluster[role]["gpus_per_node"]) for role in roles}
        return float(cluster["time_hours"]), gpus
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(
            f"{run.config_file}: expected a frozen configuration, found {type(error).__name__}: {error} in it"
        ) from error
