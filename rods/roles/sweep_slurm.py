"""The runs of a sweep as Slurm jobs: submitted one after another, each its own run; the login node need not stay."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from launchers import scheduler, slurm
from launchers.scheduler import JobInfo
from launchers.states import Phase
from launchers.sweep import Point
from launchers.sweep_table import GOOD, Result, State, results
from launchers.terminal import FAILED, INTERRUPTED, show
from rods.config import LaunchMode
from rods.errors import RodsError
from rods.exchange import owner, stop
from rods.exchange.rundir import RunDir
from rods.roles import launching

POLL_S = 15.0


def start(points: Sequence[Point]) -> int:
    """Submit every point; with launch.mode=wait, follow all to their ends. Returns the exit status.

    A point that cannot be submitted does not keep the others from it. `launch.max_parallel` = n makes n chains of
    jobs, in which each run waits for the end, good or bad, of the run n places before it.
    """
    found = _submit_all(points)
    show(results(found))
    if points[0].config.launch.mode is LaunchMode.submit or not any(one.jobs for one in found):
        return _status(found)
    try:
        found = follow(found)
    except KeyboardInterrupt:
        show("no longer following; the jobs go on")
        return INTERRUPTED
    show(results(found))
    return _status(found)


def _submit_all(points: Sequence[Point]) -> list[Result]:
    sweep, at_once = secrets.token_hex(4), points[0].config.launch.max_parallel or len(points)
    lanes: list[tuple[str, ...]] = [()] * at_once
    found: list[Result] = []
    for point in points:
        lane = len([one for one in found if one.jobs]) % at_once
        result = submit(point, lanes[lane], {"id": sweep, "run": point.number, "of": len(points)})
        if result.jobs:
            lanes[lane] = result.jobs
        told = (
            f"job {','.join(result.jobs)}  {result.path}"
            if result.jobs
            else f"not submitted: {result.reason}"
        )
        show(f"{point.number}/{len(points)}  {told}")
        found.append(result)
    return found


def submit(point: Point, after: Sequence[str], sweep: dict[str, object]) -> Result:
    """Make one run's directory and hand its jobs to Slurm.

    Args:
        after: jobs that must have ended before.
        sweep: kept in the run's manifest, to find the runs of one sweep by.
    """
    run = None
    try:
        run = launching.create(point.config, point.plan, list(point.overrides))
        run.update_manifest(sweep=sweep)
        jobs = slurm.submit(point.config, run, run.next_attempt(), after)
    except (RodsError, OSError) as error:
        if run is not None:
            # Nothing ran, and a folder that is no run would only be in the way.
            shutil.rmtree(run.path, ignore_errors=True)
        return Result(point, State.failed, reason=" ".join(str(error).split()))
    finally:
        if run is not None and run.path.exists():
            owner.release(run)
    return Result(point, State.submitted, run.path, tuple(job.job_id for job in jobs))


def follow(
    found: Sequence[Result],
    query: Callable[[Iterator[str]], dict[str, JobInfo]] = scheduler.query,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Result]:
    """Block until no job of any run goes on; what became of each. What Slurm cannot tell is waited for."""
    now = {one.point.number: one for one in found}
    while waiting := [one for one in now.values() if one.state is State.submitted]:
        infos = query(job for one in waiting for job in one.jobs)
        for one in waiting:
            judged = judge(one, [infos[job] for job in one.jobs])
            if judged is not one:
                show(f"{one.point.number}  {judged.state}  {one.path}  {judged.reason}".rstrip())
                now[one.point.number] = judged
        if any(one.state is State.submitted for one in now.values()):
            sleep(POLL_S)
    return list(now.values())


def judge(one: Result, jobs: Sequence[JobInfo]) -> Result:
    """What the states of a run's jobs mean for it; `one` itself while it may still go on."""
    assert one.path is not None
    if any(job.row.phase is not Phase.over or job.row.returns for job in jobs):
        return one
    if stop.is_finished(RunDir(one.path)):
        return replace(one, state=State.finished)
    told = [f"job {job.job_id}: {job.row.sentence}" for job in jobs if not job.row.ok]
    return replace(one, state=State.failed, reason="; ".join(told) or "ended before the end of the run")


def _status(found: Sequence[Result]) -> int:
    return 0 if all(one.state in GOOD for one in found) else FAILED
