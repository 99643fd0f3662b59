"""The state of a run, read from its directory: metrics, queue folders, heartbeats, outcomes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from rods.exchange import owner, replica, stop
from rods.exchange.atomic import read_json
from rods.exchange.heartbeat import Beat, read_all
from rods.exchange.metrics import read_metrics
from rods.exchange.rundir import QUEUES, RunDir

ETA_STEPS = 20  # the pace is taken over the last so many steps
_ZONES = ("hard", "boundary", "mastered")
_SYNTHESIS = ("claimed", "accepted", "dropped", "attempts")


@dataclass(frozen=True)
class RunState:
    """One look at a run; figures are None until the trainer has written them.

    Attributes:
        status: "waiting" (no attempt yet, or a job in Slurm's queue), "running", "finished", "stopped", "failed"
            or "interrupted".
        reward: mean reward of the last step's rollouts.
        zones: tasks of the last step by zone: hard, boundary, mastered.
        pool: tasks: active, seeds, variants, waiting for the next epoch.
        queues: messages by queue and state.
        synthesis: cumulative counts of all daemons: claimed, accepted, dropped, attempts.
        roles: by role: phase and seconds since its heartbeat.
        evaluations: the held-out evaluations so far.
        eta_s: seconds to the last step at the pace of the last `ETA_STEPS` steps.
        sentence: how the last attempt ended or what it waits for, "" while it runs.
    """

    name: str
    path: str
    status: str
    attempt: int
    epoch: int | None = None
    epochs_total: int | None = None
    step: int | None = None
    steps_total: int | None = None
    reward: float | None = None
    zones: dict[str, int] = field(default_factory=dict)
    pool: dict[str, int] = field(default_factory=dict)
    queues: dict[str, dict[str, int]] = field(default_factory=dict)
    synthesis: dict[str, int] = field(default_factory=dict)
    roles: dict[str, dict[str, Any]] = field(default_factory=dict)
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    eta_s: float | None = None
    sentence: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data for `rods status --json`."""
        return asdict(self)


def read_state(run: RunDir) -> RunState:
    """Look at a run once.

    Raises:
        CorruptFileError: a file of the run was damaged; names it.
        KeyError, TypeError, ValueError, AttributeError: it is JSON, but not what the roles write.
        OSError: a file cannot be read.
    """
    lines = read_metrics(run.metrics / "train.jsonl")
    steps = [line for line in lines if "event" not in line]
    last = steps[-1] if steps else {}
    beats = read_all(run.heartbeats)
    status, sentence = _status(run, beats)
    return RunState(
        name=run.name,
        path=str(run.path),
        status=status,
        attempt=run.last_attempt(),
        epoch=last.get("epoch"),
        epochs_total=last.get("epochs_total"),
        step=last.get("step"),
        steps_total=last.get("steps_total"),
        reward=last.get("reward_mean"),
        zones={zone: last.get("zones", {}).get(zone, 0) for zone in _ZONES} if last else {},
        pool=_pool(next((line for line in reversed(lines) if "waiting" in line), {})),
        queues={name: dict(run.queue(name).counts()) for name in QUEUES},
        synthesis=replica.totals(run, "synthesis", _SYNTHESIS),
        roles={
            role: {"phase": beat.phase, "age_s": round(beat.age_s, 1), "info": beat.info}
            for role, beat in beats.items()
        },
        evaluations=[line for line in lines if line.get("event") == "evaluation"],
        eta_s=eta_s(steps),
        sentence=sentence,
    )


def eta_s(steps: list[dict[str, Any]]) -> float | None:
    """Seconds to the end at the recent pace; None before two steps or without a known total."""
    recent = steps[-ETA_STEPS - 1 :]
    if len(recent) < 2 or not recent[-1].get("steps_total"):
        return None
    gaps = [b["time"] - a["time"] for a, b in pairwise(recent) if b["step"] == a["step"] + 1]
    if not gaps:
        return None
    # The median: the pause of a restart or of an epoch's end is no pace.
    pace = sorted(gaps)[len(gaps) // 2]
    left = int(recent[-1]["steps_total"]) - int(recent[-1]["step"])
    return float(max(0.0, left * pace))


def _pool(last: dict[str, Any]) -> dict[str, int]:
    names = {
        "active": "pool_active",
        "seeds": "pool_seeds",
        "variants": "pool_variants",
        "waiting": "waiting",
    }
    return {name: last[key] for name, key in names.items() if key in last}


def _status(run: RunDir, beats: dict[str, Beat]) -> tuple[str, str]:
    attempt = run.last_attempt()
    if attempt == 0:
        return "waiting", ""
    outcome = run.attempt_dir(attempt) / "outcome.json"
    if outcome.exists():
        body = read_json(outcome)
        return str(body["status"]), str(body["sentence"])
    if stop.is_finished(run):
        return "finished", "the run finished"
    return _status_without_outcome(run, beats)


def _status_without_outcome(run: RunDir, beats: dict[str, Beat]) -> tuple[str, str]:
    """Running, unless everybody who would write an outcome is gone."""
    following = owner.newest(run)
    timeout_s = following.timeout_s if following else owner.DEFAULT_TIMEOUT_S
    alive = any(owner.is_alive(beat, timeout_s) for beat in beats.values())
    if alive or (following and following.is_alive(run)):
        return "running", ""
    job = run.read_manifest().get("slurm_job")
    if job is not None:
        return "waiting", f"no role runs now; squeue -j {job} tells whether the job still waits"
    if following or beats:
        return (
            "stopped",
            f"supervisor gone: no process of the run lives; launch.resume={run.path} continues it",
        )
    return "running", ""
