"""What a run costs: GPU-hours planned, used, and lost to restarts, by role.

Slurm's accounting has every start of every job; without it the run directory shows when an attempt first and last
wrote anything. Lost is what a trainer did after the checkpoint that the next attempt went on from: the daemons lose
nothing, since a seed that was not answered is answered later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from launchers.jobs import SubmittedJob
from launchers.resources import TRAIN
from launchers.scheduler import Record

PAPER = {"train": 448.0, "synthesis": 448.0}  # GPU-hours, arXiv 2606.19047: 2 × 8 A100 for about 56 h
ACCOUNTING = "Slurm's accounting"
DIRECTORY = "the times of files in the run directory"
_HOUR_S, _KWH_J = 3600.0, 3.6e6
_SKEW_S = 300.0  # between clocks; what started earlier is another job that once had the same number


@dataclass(frozen=True)
class Span:
    """A role at work on its GPUs.

    Attributes:
        begin, end: seconds since 1970; `end` None while it goes on.
    """

    role: str
    attempt: int
    gpus: int
    begin: float
    end: float | None

    def hours(self, now: float) -> float:
        """Its length so far."""
        return max(0.0, (now if self.end is None else self.end) - self.begin) / _HOUR_S


@dataclass(frozen=True)
class Step:
    """A line of the trainer's metrics: which step was done when."""

    step: int
    time: float


@dataclass(frozen=True)
class Progress:
    """How far a run came.

    Attributes:
        steps: the trainer's metrics lines, in order.
        saved: the step of the newest checkpoint, 0 without one.
        finished: it came to its end: its last attempt lost nothing.
    """

    steps: tuple[Step, ...] = ()
    saved: int = 0
    finished: bool = False


@dataclass(frozen=True)
class RoleCost:
    """One role's GPU-hours; of a role without GPUs only `hours` says something.

    Attributes:
        gpus: of one attempt.
        planned: GPUs × time limit, of one attempt; None where there is no limit, on this machine.
        hours: allocated time of its jobs, summed.
    """

    gpus: int
    planned: float | None
    used: float
    wasted: float
    hours: float


@dataclass(frozen=True)
class Cost:
    """What one run cost so far.

    Attributes:
        source: what it was read from.
        attempts: starts of the trainer.
        energy_kwh: of all its nodes; None where the site does not measure it.
        trouble: why accounting was not used although there are jobs; "" otherwise.
    """

    run: str
    source: str
    attempts: int
    roles: dict[str, RoleCost]
    energy_kwh: float | None
    trouble: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data, with the sums over roles."""
        names = ("planned", "used", "wasted")
        return asdict(self) | {"total": {name: getattr(self, name) for name in names}, "paper": PAPER}

    @property
    def gpus(self) -> int:
        """Of all roles, in one attempt."""
        return sum(role.gpus for role in self.roles.values())

    @property
    def planned(self) -> float | None:
        """GPU-hours of all roles in one attempt; None where there is no limit."""
        known = [role.planned for role in self.roles.values() if role.planned is not None]
        return sum(known) if known else None

    @property
    def used(self) -> float:
        """GPU-hours of all roles."""
        return sum(role.used for role in self.roles.values())

    @property
    def wasted(self) -> float:
        """GPU-hours of all roles that came to nothing."""
        return sum(role.wasted for role in self.roles.values())


def spans_of_jobs(jobs: Iterable[SubmittedJob], starts: Mapping[str, Sequence[Record]]) -> list[Span]:
    """Every start of every role that accounting knows.

    Args:
        jobs: as submitted.
        starts: accounting's records by job, oldest first.
    """
    return [span for job in jobs for span in _spans(job, starts.get(job.job_id, ()))]


def lost_gpu_hours(spans: Sequence[Span], progress: Progress) -> float:
    """GPU-hours that trainers worked after the last step that was kept of them; `spans` are the trainer's."""
    ended = sorted((span for span in spans if span.end is not None), key=lambda span: span.begin)
    if progress.finished:
        ended = ended[:-1]
    return sum(span.gpus * _lost_s(span.begin, span.end or span.begin, progress) for span in ended) / _HOUR_S


def cost(
    run: str,
    source: str,
    spans: Sequence[Span],
    gpus: Mapping[str, int],
    progress: Progress,
    now: float,
    *,
    limit_hours: float | None = None,
    energy_j: float | None = None,
    trouble: str = "",
) -> Cost:
    """The account of one run.

    Args:
        gpus: by role, of one attempt.
        now: seconds since 1970, for spans that go on.
        limit_hours: of one attempt; None without a limit.
    """
    roles = dict.fromkeys([*gpus, *(span.role for span in spans)])
    trainers = [span for span in spans if span.role == TRAIN]
    costs = {
        role: RoleCost(
            gpus=gpus.get(role, 0),
            planned=None if limit_hours is None else gpus.get(role, 0) * limit_hours,
            used=sum(span.gpus * span.hours(now) for span in spans if span.role == role),
            wasted=lost_gpu_hours(trainers, progress) if role == TRAIN else 0.0,
            hours=sum(span.hours(now) for span in spans if span.role == role),
        )
        for role in roles
    }
    attempts = len({span.attempt for span in trainers})
    return Cost(run, source, attempts, costs, None if energy_j is None else energy_j / _KWH_J, trouble)


def energy_j(starts: Mapping[str, Sequence[Record]]) -> float | None:
    """The joules of all records; None where none has any."""
    measured = [row.energy_j for rows in starts.values() for row in rows if row.energy_j is not None]
    return sum(measured) if measured else None


def _spans(job: SubmittedJob, records: Sequence[Record]) -> list[Span]:
    spans: list[Span] = []
    begun: dict[str, int] = {}
    for record in records:
        if record.start is None or not record.elapsed_s or record.start < job.time - _SKEW_S:
            continue
        attempt = job.attempt + begun.get(record.job_id, 0)
        begun[record.job_id] = begun.get(record.job_id, 0) + 1
        for role, gpus in _roles(job, record).items():
            spans.append(Span(role, attempt, gpus, record.start, record.end))
    return spans


def _roles(job: SubmittedJob, record: Record) -> dict[str, int]:
    """The roles of a record and their GPUs: a component has one, a job that is not heterogeneous all."""
    component = record.job_id.partition("+")[2]
    if not component:
        return {role: job.gpus.get(role, 0) for role in job.roles}
    role = job.roles[min(int(component), len(job.roles) - 1)]
    return {role: job.gpus.get(role, 0) if record.gpus is None else record.gpus}


def _lost_s(begin: float, end: float, progress: Progress) -> float:
    """Seconds of one attempt after the step that whoever came next went on from."""
    own = [step for step in progress.steps if begin <= step.time <= end]
    later = next((step for step in progress.steps if step.time > end), None)
    kept = progress.saved if later is None else later.step - 1
    last = max((step.time for step in own if step.step <= kept), default=begin)
    return end - last
