"""Jobs that Slurm has taken and nobody has listed, since the process that submitted them was killed in between.

Before the first call of sbatch the run directory is marked, and the mark goes away once the jobs are listed. Where it
has stayed, Slurm is asked for the jobs of the run's name, which ends in random characters of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from launchers import scheduler, snapshot
from launchers.batches import Batch, batches, daemons
from launchers.jobs import SubmittedJob
from launchers.resources import SYNTHESIS, resources
from launchers.scheduler import Answer
from rods.config import Config
from rods.exchange.rundir import RunDir

_MARK = "submitting"
_QUEUE = ("squeue", "--noheader", "--all", "--format=%i|%j")
_DAEMON = f".{SYNTHESIS}"


@contextmanager
def marked(run: RunDir) -> Iterator[None]:
    """While it lasts jobs of `run` are submitted and listed. Only a process that owns the run may.

    Raises:
        OSError: the mark cannot be made.
    """
    mark = run.path / _MARK
    mark.touch()
    try:
        yield
    finally:
        mark.unlink(missing_ok=True)


def of_run(run: RunDir, ask: Callable[[Sequence[str]], Answer] = scheduler.ask) -> list[SubmittedJob]:
    """The jobs of the run that wait or run, where some may be in no list; nothing is asked where none can be.

    Args:
        ask: runs one of Slurm's commands.

    Raises:
        SnapshotError: the run's configuration cannot be read.
    """
    try:
        since = (run.path / _MARK).stat().st_mtime
    except FileNotFoundError:
        return []
    config, attempt = snapshot.load_config(run), run.last_attempt()
    rows = [line.partition("|") for line in ask(_QUEUE).text.splitlines()]
    found = {scheduler.lead(job_id): name for job_id, _, name in rows if _is_own(run, name)}
    return [
        replace(listed(_batch(config, name.removeprefix(run.name)), job_id, attempt), time=since)
        for job_id, name in sorted(found.items(), key=lambda item: int(item[0]))
    ]


def listed(batch: Batch, job_id: str, attempt: int) -> SubmittedJob:
    """A job as the run's list has it; its time is left open."""
    return SubmittedJob(
        job_id=job_id,
        roles=tuple(role.role for role in batch.roles),
        coschedule=batch.coschedule,
        attempt=attempt,
        time=0.0,
        gpus={role.role: role.gpus for role in batch.roles},
        replica=batch.replica if batch.series else None,
    )


def job_name(batch: Batch, run_name: str) -> str:
    """What Slurm calls the job: the run, and the daemon where the job has no other role."""
    return run_name if not batch.series else f"{run_name}.{batch.name}"


def _is_own(run: RunDir, name: str) -> bool:
    rest = name.removeprefix(run.name + _DAEMON)
    return name == run.name or (rest != name and (not rest or rest.removeprefix("-").isdigit()))


def _batch(config: Config, ending: str) -> Batch:
    if not ending:
        return batches(config)[0]
    shape = next(role for role in resources(config) if role.role == SYNTHESIS)
    number = int(ending.removeprefix(_DAEMON).removeprefix("-") or "0")
    return daemons(shape if not number else replace(shape, nodes=1), number)
