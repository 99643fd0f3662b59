"""The Slurm jobs of a run: what was submitted, and what the scheduler says became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from launchers.jobs import SubmittedJob
from launchers.reasons import phrase
from launchers.resources import TRAIN
from launchers.scheduler import JobInfo, Record
from launchers.states import Phase, Row

_LIVELY = (Phase.running, Phase.ending, Phase.waiting, Phase.unknown, Phase.over)


@dataclass(frozen=True)
class Part:
    """One component of a job.

    Attributes:
        role: what runs in it; several roles of one component are joined with "+".
        state: Slurm's words.
        why: its reason to wait, as a phrase; "" for none.
    """

    job_id: str
    role: str
    phase: str
    state: str
    why: str
    nodes: str
    elapsed_s: float | None
    limit_s: float | None
    start: float | None


@dataclass(frozen=True)
class JobState:
    """One submission and what Slurm says of it.

    Attributes:
        phase: `launchers.states.Phase`.
        sentence, advice: of its state, for a person.
        returns: Slurm takes it up again by itself.
        trouble: why Slurm's answer is missing; "" when it answered.
        gone: it is not in the queue any more, and nobody said what became of it.
    """

    job_id: str
    roles: tuple[str, ...]
    attempt: int
    replica: int | None
    phase: str
    state: str
    ok: bool
    returns: bool
    sentence: str
    advice: str
    trouble: str
    gone: bool
    parts: tuple[Part, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def look(jobs: Sequence[SubmittedJob], infos: Mapping[str, JobInfo]) -> tuple[JobState, ...]:
    """The run's jobs in the order of their submission.

    Args:
        infos: what the scheduler answered, by job id.
    """
    return tuple(_state(job, infos[job.job_id]) for job in jobs)


def deciding(jobs: Sequence[JobState]) -> JobState | None:
    """The job that says how the run stands: of those with the trainer the liveliest, the newest of equals."""
    trainers = [job for job in jobs if TRAIN in job.roles] or list(jobs)
    return min(reversed(trainers), key=lambda job: _LIVELY.index(Phase(job.phase)), default=None)


def _state(job: SubmittedJob, info: JobInfo) -> JobState:
    return JobState(
        job_id=job.job_id,
        roles=job.roles,
        attempt=job.attempt,
        replica=job.replica,
        phase=str(info.row.phase),
        state=info.row.word,
        ok=info.row.ok,
        returns=info.row.returns,
        sentence=_sentence(info.row, info.components),
        advice=info.row.advice,
        trouble=info.trouble,
        gone=info.gone,
        parts=tuple(_part(job, record) for record in info.components),
    )


def _sentence(row: Row, components: Sequence[Record]) -> str:
    """What the job's state means; why it waits, where Slurm says so; what became of a component that ended."""
    reasons = [phrase(part.reason) for part in components if part.row.phase is Phase.waiting]
    said = next((reason for reason in reasons if reason), row.sentence)
    lost = [part for part in components if part.row.phase is Phase.over and row.phase is not Phase.over]
    return "; ".join([said, *(f"component {part.job_id} {part.row.sentence}" for part in lost)])


def _part(job: SubmittedJob, record: Record) -> Part:
    index = record.job_id.partition("+")[2]
    role = job.roles[min(int(index), len(job.roles) - 1)] if index else "+".join(job.roles)
    return Part(
        job_id=record.job_id,
        role=role if not job.replica else f"{role}-{job.replica}",
        phase=str(record.row.phase),
        state=record.state,
        why=phrase(record.reason) if record.row.phase is Phase.waiting else "",
        nodes=record.nodes,
        elapsed_s=record.elapsed_s,
        limit_s=record.limit_s,
        start=record.start,
    )
