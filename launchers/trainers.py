"""What Slurm says of a run's trainers: whether one is at work, will be, or none will come any more."""

from __future__ import annotations

from enum import StrEnum

from launchers import jobs, scheduler
from launchers.resources import TRAIN
from launchers.states import Phase
from rods.exchange.rundir import RunDir


class Trainer(StrEnum):
    """One runs, one waits for its turn, all are over, or Slurm gave no answer."""

    running = "running"
    waiting = "waiting"
    over = "over"
    unknown = "unknown"


_PHASES = (
    ((Phase.running, Phase.ending), Trainer.running),
    ((Phase.waiting,), Trainer.waiting),
    ((Phase.unknown,), Trainer.unknown),
)


def ask(run: RunDir) -> tuple[Trainer, str]:
    """What Slurm says of the run's trainers, and the job of the one it speaks of ("" when all are over).

    Raises:
        LaunchError: the run's list of jobs is damaged.
    """
    ids = list(dict.fromkeys([*(job.job_id for job in jobs.read(run) if TRAIN in job.roles), *_started(run)]))
    infos = scheduler.query(ids)
    for phases, answer in _PHASES:
        found = [job for job in ids if infos[job].row.phase in phases]
        if found:
            return answer, found[0]
    return Trainer.over, ""


def _started(run: RunDir) -> list[str]:
    """The job of the newest attempt, which a person may have submitted by hand."""
    try:
        text = (run.attempt_dir(run.last_attempt()) / jobs.START).read_text(errors="replace")
    except FileNotFoundError:
        return []
    return [job for job in [text.partition(".")[0].strip()] if job.isdigit()]
