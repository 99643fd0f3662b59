"""How a run stands: what its last attempt recorded, else what Slurm says of its jobs, else its signs of life."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from launchers.states import Phase
from rods.exchange import owner, stop
from rods.exchange.atomic import read_json
from rods.exchange.heartbeat import Beat
from rods.exchange.rundir import RunDir
from rods.watch.jobs import JobState, deciding

REQUEUED = "requeued"  # an attempt's outcome: Slurm starts the next one by itself


def standing(run: RunDir, beats: Mapping[str, Beat], jobs: Sequence[JobState]) -> tuple[str, str]:
    """A word for the run (see `RunState.status`) and a sentence, "" while it runs.

    Args:
        beats: signs of life by role.
        jobs: the run's Slurm jobs; none for one of this machine.

    Raises:
        RodsError, OSError, KeyError, TypeError: what says so is damaged.
    """
    if stop.is_finished(run):
        return "finished", "the run finished"
    job = deciding(jobs)
    if job is not None and job.phase not in (Phase.over, Phase.unknown):
        return _by_job(run, beats, job)
    outcome = run.attempt_dir(run.last_attempt()) / "outcome.json"
    if outcome.exists():
        body = read_json(outcome)
        if body["status"] != REQUEUED:
            return str(body["status"]), str(body["sentence"])
        if job is None or job.phase == Phase.unknown:
            return "waiting", str(body["sentence"])
    if job is not None and job.phase == Phase.over:
        return _after_job(run, job)
    return _by_signs_of_life(run, beats, job)


def _by_job(run: RunDir, beats: Mapping[str, Beat], job: JobState) -> tuple[str, str]:
    if job.phase == Phase.waiting:
        return "waiting", f"job {job.job_id}: {job.sentence}"
    return "running", "" if _alive(run, beats) else f"job {job.job_id} runs; no role gives a sign of life yet"


def _after_job(run: RunDir, job: JobState) -> tuple[str, str]:
    if job.returns:
        return "waiting", f"job {job.job_id} {job.sentence}"
    word = "stopped" if job.ok or job.state == "CANCELLED" else "failed"
    advice = job.advice.replace("RUN", str(run.path)) or f"to go on: rods resume {run.path}"
    return word, f"job {job.job_id} {job.sentence}; {advice}"


def _by_signs_of_life(run: RunDir, beats: Mapping[str, Beat], job: JobState | None) -> tuple[str, str]:
    """Running, unless everybody who would write an outcome is gone."""
    if _alive(run, beats):
        return "running", ""
    if job is not None and job.gone:
        return (
            "stopped",
            f"job {job.job_id} has left the queue ({job.trouble}); to go on: rods resume {run.path}",
        )
    if job is not None:
        return "waiting", f"no role gives a sign of life; job {job.job_id}: {job.trouble or job.sentence}"
    if run.last_attempt() == 0:
        return "waiting", ""
    if owner.newest(run) or beats:
        return (
            "stopped",
            f"supervisor gone: no process of the run lives; to go on: rods resume {run.path}",
        )
    return "running", ""


def _alive(run: RunDir, beats: Mapping[str, Beat]) -> bool:
    following = owner.newest(run)
    timeout_s = following.timeout_s if following else owner.DEFAULT_TIMEOUT_S
    if any(owner.is_alive(beat, timeout_s) for beat in beats.values()):
        return True
    return following is not None and following.is_alive(run)
