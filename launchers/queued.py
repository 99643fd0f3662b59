"""A run whose jobs are still in Slurm's queue must not be started a second time."""

from __future__ import annotations

from launchers import scheduler, started
from launchers.errors import LaunchError
from launchers.scheduler import JobInfo, Scheduler
from launchers.states import Phase
from rods.exchange.rundir import RunDir


def open_jobs(run: RunDir, slurm: Scheduler | None = None) -> list[JobInfo]:
    """The run's jobs that Slurm says wait, run or come back.

    Args:
        slurm: who is asked; default: this process's scheduler.
    """
    infos = (slurm or scheduler.HERE).query(job.job_id for job in started.of_run(run))
    return [info for info in infos.values() if _is_open(info)]


def check_none(run: RunDir, slurm: Scheduler | None = None) -> None:
    """Refuse a run with a job that will start, or has started. Without Slurm's answer signs of life must do.

    Raises:
        LaunchError: names the job.
    """
    for info in open_jobs(run, slurm):
        raise LaunchError(
            f"{run.path}: expected no job of it in the queue, found job {info.job_id}, which {info.row.sentence}; "
            f"wait for it, or end it first: rods cancel {run.path}"
        )


def _is_open(info: JobInfo) -> bool:
    return info.row.returns or info.row.phase not in (Phase.over, Phase.unknown)
