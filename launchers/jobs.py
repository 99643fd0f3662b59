"""The Slurm jobs of a run, as they were submitted: `jobs.jsonl` in its directory.

A run may have several at once (training and synthesis apart, further synthesis daemons) and many one after
another (a chain, a resume); whoever asks the scheduler about the run starts from this list. It says what was
submitted, never what became of it: that is the scheduler's to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from launchers.errors import LaunchError
from rods.exchange.metrics import MetricsWriter, read_metrics
from rods.exchange.rundir import RunDir

FILE = "jobs.jsonl"
# What a batch script and its roles leave each other in an attempt's folder. `start`: whose start it is, made by the
# script, job and restart count as "4711.0". `requeue`: the script is to put the job back, since the role cannot.
START, PUT_BACK = "start", "requeue"


@dataclass(frozen=True)
class SubmittedJob:
    """One submission.

    Attributes:
        job_id: Slurm's id; of a heterogeneous job that of its first component.
        roles: what runs in it, the trainer first.
        coschedule: how its roles were meant to meet: het, single or pair.
        attempt: the attempt that its first start is; requeues count on from there.
        time: when it was submitted, in seconds since 1970 by the submitting host's clock.
        gpus: how many GPUs each role has in it.
        replica: which of the run's synthesis daemons it is; None where that is not asked.
    """

    job_id: str
    roles: tuple[str, ...]
    coschedule: str
    attempt: int
    time: float
    gpus: Mapping[str, int]
    replica: int | None = None


def file_of(run: RunDir) -> Path:
    """Where the run's submissions are listed."""
    return run.path / FILE


def record(run: RunDir, job: SubmittedJob) -> None:
    """Add a submission, durably. Only a process that owns the run may (see `rods.exchange.owner`).

    Raises:
        OSError: it cannot be written; nothing was added.
    """
    writer = MetricsWriter(file_of(run))
    try:
        writer.write(asdict(job))
    finally:
        writer.close()


def read(run: RunDir) -> list[SubmittedJob]:
    """Every submission of the run, in order; empty for one that was never submitted.

    Raises:
        LaunchError: a line is no submission; names the file and the line.
    """
    lines = read_metrics(file_of(run))
    return [_parse(line, f"{file_of(run)}:{number}") for number, line in enumerate(lines, 1)]


def _parse(line: Mapping[str, Any], where: str) -> SubmittedJob:
    try:
        replica = line["replica"]
        return SubmittedJob(
            job_id=str(line["job_id"]),
            roles=tuple(str(role) for role in line["roles"]),
            coschedule=str(line["coschedule"]),
            attempt=int(line["attempt"]),
            time=float(line["time"]),
            gpus={str(role): int(count) for role, count in line["gpus"].items()},
            replica=None if replica is None else int(replica),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LaunchError(
            f"{where}: expected a submitted job, found {str(line)[:200]} ({type(error).__name__}: {error}). "
            "Remove the line; squeue shows which jobs the run has"
        ) from error
