"""All runs under one folder, a line each; one that is damaged has a line too."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from launchers import scheduler, started
from launchers.scheduler import Scheduler
from launchers.states import Phase
from rods.errors import RodsError
from rods.exchange.rundir import RunDir
from rods.watch import spending
from rods.watch.jobs import JobState
from rods.watch.state import RunState, read_state

_BROKEN = (RodsError, OSError, KeyError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True)
class Line:
    """One run in a list of runs.

    Attributes:
        status: as `RunState.status`.
        age_s: seconds since the run was made.
        jobs: Slurm's ids of its jobs that are not over, or of which it does not answer.
        gpu_hours: used so far; None where it cannot be told.
        trouble: what of it cannot be read, "" for nothing.
        steps_estimated: whether `steps_total` may change.
    """

    name: str
    path: str
    status: str
    attempt: int = 0
    step: int | None = None
    steps_total: int | None = None
    reward: float | None = None
    age_s: float | None = None
    jobs: tuple[str, ...] = ()
    gpu_hours: float | None = None
    sentence: str = ""
    trouble: str = ""
    steps_estimated: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def list_runs(folder: Path, slurm: Scheduler | None = None) -> list[Line]:
    """The runs in `folder`, newest last; Slurm is asked once for the jobs of all.

    Args:
        slurm: who is asked; default: this process's scheduler.
    """
    asked = slurm or scheduler.HERE
    # A name with a dot in front is one that is being removed.
    runs = sorted((RunDir(path.parent) for path in folder.glob("[!.]*/manifest.json")), key=_made)
    _ask_once(runs, asked)
    return [_line(run, asked) for run in runs]


def _ask_once(runs: Sequence[RunDir], slurm: Scheduler) -> None:
    """Let the scheduler learn of all jobs, so that it answers for each run from what it has."""
    jobs: list[str] = []
    for run in runs:
        try:
            jobs += [job.job_id for job in started.of_run(run)]
        except _BROKEN:
            continue  # the run's own line tells it
    slurm.query(jobs)
    slurm.starts(jobs)


def _line(run: RunDir, slurm: Scheduler) -> Line:
    try:
        run.read_manifest()
        state = read_state(run, slurm)
        return _of_state(state, _made(run), _gpu_hours(run, slurm))
    except _BROKEN as error:
        return Line(run.name, str(run.path), "damaged", trouble=f"{type(error).__name__}: {error}")


def _of_state(state: RunState, made: float, gpu_hours: float | None) -> Line:
    return Line(
        name=state.name,
        path=state.path,
        status=state.status,
        attempt=state.attempt,
        step=state.step,
        steps_total=state.steps_total,
        steps_estimated=state.steps_estimated,
        reward=state.reward,
        age_s=max(0.0, time.time() - made),
        jobs=tuple(job.job_id for job in state.jobs if _is_open(job)),
        gpu_hours=gpu_hours,
        sentence=state.sentence,
        trouble="; ".join(state.troubles),
    )


def _is_open(job: JobState) -> bool:
    return job.returns or not (job.phase == Phase.over or job.gone)


def _gpu_hours(run: RunDir, slurm: Scheduler) -> float | None:
    try:
        return spending.read(run, slurm).used
    except _BROKEN:
        return None


def _made(run: RunDir) -> float:
    """When the run was made: its code is frozen then and never touched again."""
    for path in (run.code, run.path):
        try:
            return path.stat().st_mtime
        except OSError:
            continue
    return 0.0
