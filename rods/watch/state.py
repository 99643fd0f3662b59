"""The state of a run, read from its directory: metrics, queue folders, heartbeats, outcomes; and from Slurm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from statistics import median_high
from typing import Any, TypeVar

from launchers import jobs as submissions
from launchers import scheduler, started
from launchers.scheduler import Scheduler
from rods.errors import RodsError
from rods.exchange import replica
from rods.exchange.heartbeat import Beat, read_all
from rods.exchange.metrics import read_metrics
from rods.exchange.rundir import QUEUES, RunDir
from rods.watch.jobs import JobState, look
from rods.watch.standing import standing

ETA_STEPS = 20  # the pace is taken over the last so many steps
_ZONES = ("hard", "boundary", "mastered")
_SYNTHESIS = ("claimed", "accepted", "dropped", "attempts")
_POOL = {"active": "pool_active", "seeds": "pool_seeds", "variants": "pool_variants", "waiting": "waiting"}
_Value = TypeVar("_Value")
_Lines = list[dict[str, Any]]


@dataclass(frozen=True)
class RunState:
    """One look at a run; figures are None until the trainer has written them.

    Attributes:
        status: "waiting" (no attempt yet, or a job in Slurm's queue), "running", "finished", "stopped", "failed"
            or "interrupted"; "damaged" when what says so cannot be read.
        steps_total: of the whole run; `steps_estimated`: what happens until then may change it.
        reward: mean reward of the last step's rollouts.
        zones: tasks of the last step by zone: hard, boundary, mastered.
        pool: tasks: active, seeds, variants, waiting for the next epoch.
        queues: messages by queue and state.
        synthesis: cumulative counts: claimed, accepted, dropped, attempts.
        roles: by role: phase and seconds since its heartbeat, where that is of its newest attempt.
        evaluations: those of the run so far, on held-out and validation tasks.
        throughput: steps_per_hour and rollouts_per_hour at the pace of the last `ETA_STEPS` steps.
        eta_s: seconds to the last step at that pace.
        jobs: its Slurm jobs, in the order of their submission.
        sentence: how the last attempt ended or what it waits for, "" while it runs.
        troubles: what could not be read, and why; the figures that would come from there are missing.
    """

    name: str
    path: str
    status: str
    attempt: int
    epoch: int | None = None
    epochs_total: int | None = None
    step: int | None = None
    steps_total: int | None = None
    steps_estimated: bool = False
    reward: float | None = None
    zones: dict[str, int] = field(default_factory=dict)
    pool: dict[str, int] = field(default_factory=dict)
    queues: dict[str, dict[str, int]] = field(default_factory=dict)
    synthesis: dict[str, int] = field(default_factory=dict)
    roles: dict[str, dict[str, Any]] = field(default_factory=dict)
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    throughput: dict[str, float] = field(default_factory=dict)
    eta_s: float | None = None
    jobs: tuple[JobState, ...] = ()
    sentence: str = ""
    troubles: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data for `rods status --json`."""
        return asdict(self)

    @property
    def goes_on(self) -> bool:
        """Whether something may still change by itself."""
        return self.status in ("waiting", "running")


class _Reader:
    """Reads a run part by part: one that is damaged is told, and the others are still shown."""

    def __init__(self) -> None:
        self.troubles: list[str] = []

    def read(self, what: str, function: Callable[[], _Value], otherwise: _Value) -> _Value:
        try:
            return function()
        except (RodsError, OSError) as error:
            self.troubles.append(f"{what}: {error}")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self.troubles.append(
                f"{what}: not as the roles write it ({type(error).__name__}: {error}); it was damaged from outside, "
                "restore or remove it"
            )
        return otherwise


def read_state(run: RunDir, slurm: Scheduler | None = None) -> RunState:
    """Look at a run once. What cannot be read is in `troubles`, never raised.

    Args:
        slurm: who is asked about the run's jobs; default: this process's scheduler.
    """
    reader = _Reader()
    metrics = run.metrics / "train.jsonl"
    lines: _Lines = reader.read(str(metrics), lambda: read_metrics(metrics), [])
    beats: dict[str, Beat] = reader.read(str(run.heartbeats), lambda: _checked(read_all(run.heartbeats)), {})
    none: tuple[JobState, ...] = ()
    jobs = reader.read(str(submissions.file_of(run)), lambda: _jobs(run, slurm), none)
    damaged = ("damaged", "how the run stands cannot be read")
    status, sentence = reader.read(str(run.attempts), lambda: standing(run, beats, jobs), damaged)
    figures: dict[str, Any] = reader.read(str(metrics), lambda: _figures(lines), {})
    return RunState(
        name=run.name,
        path=str(run.path),
        status=status,
        attempt=reader.read(str(run.attempts), run.last_attempt, 0),
        queues=reader.read(str(run.path / "queues"), lambda: _queues(run), {}),
        synthesis=reader.read(str(run.metrics), lambda: replica.totals(run, "synthesis", _SYNTHESIS), {}),
        roles=reader.read(str(run.attempts), lambda: _roles(run, beats), {}),
        jobs=jobs,
        sentence=sentence,
        troubles=tuple(reader.troubles),
        **figures,
    )


def _jobs(run: RunDir, slurm: Scheduler | None) -> tuple[JobState, ...]:
    submitted = started.of_run(run)
    return look(submitted, (slurm or scheduler.HERE).query(job.job_id for job in submitted))


def _roles(run: RunDir, beats: dict[str, Beat]) -> dict[str, dict[str, Any]]:
    """What the roles of the newest attempt do; a beat that an earlier one left says nothing about it."""
    newest = run.last_attempt()
    return {
        role: {"phase": beat.phase, "age_s": round(beat.age_s, 1), "info": beat.info}
        for role, beat in beats.items()
        # A daemon in a job of its own numbers its attempts by itself.
        if beat.info.get("attempt", newest) >= (RunDir(run.path, role).last_attempt() or newest)
    }


def _queues(run: RunDir) -> dict[str, dict[str, int]]:
    return {name: dict(run.queue(name).counts()) for name in QUEUES}


def _checked(beats: dict[str, Beat]) -> dict[str, Beat]:
    """Raises TypeError where a beat's fields are not what they are used as."""
    for role, beat in beats.items():
        if not (isinstance(role, str) and isinstance(beat.phase, str) and isinstance(beat.info, dict)):
            raise TypeError(f"a heartbeat of role {role!r} in phase {beat.phase!r}")
    return beats


def _figures(lines: _Lines) -> dict[str, Any]:
    """What the trainer's metrics say; raises as their damage has it."""
    steps = [line for line in lines if "event" not in line]
    last = steps[-1] if steps else {}
    pool = next((line for line in reversed(lines) if "waiting" in line), {})
    reward = last.get("reward_mean")
    return {
        **{name: _count(last.get(name)) for name in ("epoch", "epochs_total", "step", "steps_total")},
        "steps_estimated": bool(last.get("steps_estimated")),
        "reward": None if reward is None else float(reward),
        "zones": {zone: int(last.get("zones", {}).get(zone, 0)) for zone in _ZONES} if last else {},
        "pool": {name: int(pool[key]) for name, key in _POOL.items() if key in pool},
        "evaluations": [line for line in lines if line.get("event") == "evaluation"],
        "throughput": throughput(steps),
        "eta_s": eta_s(steps),
    }


def _count(value: Any) -> int | None:
    return None if value is None else int(value)


def newest_evaluations(state: RunState) -> dict[tuple[str, str], dict[str, Any]]:
    """The newest evaluation by split (heldout, validation) and mode (sampled at temperature 1, greedy)."""
    return {(str(line.get("split")), str(line.get("mode"))): line for line in state.evaluations}


def pace_s(steps: Sequence[dict[str, Any]]) -> float | None:
    """Seconds a step took lately; None before two steps."""
    recent = steps[-ETA_STEPS - 1 :]
    gaps = [b["time"] - a["time"] for a, b in pairwise(recent) if b["step"] == a["step"] + 1]
    # The median: the pause of a restart or of an epoch's end is no pace.
    return median_high(gaps) if gaps else None


def throughput(steps: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Steps and rollouts an hour; empty before two steps."""
    pace = pace_s(steps)
    if not pace:
        return {}
    found = {"steps_per_hour": 3600 / pace}
    rollouts = [step["rollouts"] for step in steps[-ETA_STEPS:] if "rollouts" in step]
    if rollouts:
        # The median here too: an epoch's last step has only the tasks that are left.
        found["rollouts_per_hour"] = median_high(rollouts) * 3600 / pace
    return found


def eta_s(steps: Sequence[dict[str, Any]]) -> float | None:
    """Seconds to the end at the recent pace; None before two steps or without a known total."""
    pace = pace_s(steps)
    if pace is None or not steps[-1].get("steps_total"):
        return None
    left = int(steps[-1]["steps_total"]) - int(steps[-1]["step"])
    return float(max(0.0, left * pace))
