"""The runs of a sweep as Slurm jobs: submitted one after another, each its own run; the login node need not stay."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace

from launchers import jobs, scheduler, slurm
from launchers.scheduler import JobInfo
from launchers.states import Phase
from launchers.sweep import Point
from launchers.sweep_table import GOOD, Result, State, once, results
from launchers.terminal import FAILED, INTERRUPTED, show
from rods.config import LaunchMode
from rods.errors import RodsError
from rods.exchange import owner, stop
from rods.exchange.rundir import RunDir
from rods.roles import launching
from rods.roles.supervisor import Interrupts

POLL_S = 15.0
_AT_ONCE = 4  # run directories being made


def start(points: Sequence[Point]) -> int:
    """Submit every point; with launch.mode=wait, follow all to their ends. Returns the exit status.

    A point that cannot be submitted does not keep the others from it. `launch.max_parallel` = n makes n chains of
    jobs, in which each run waits for the end, good or bad, of the run n places before it.
    """
    found = submit_all(points)
    show(results(found))
    if any(one.state is State.not_started for one in found):
        return INTERRUPTED
    if points[0].config.launch.mode is LaunchMode.submit or not any(one.jobs for one in found):
        return _status(found)
    try:
        found = follow(found)
    except KeyboardInterrupt:
        show("no longer following; the jobs go on")
        return INTERRUPTED
    show(results(found))
    return _status(found)


def submit_all(points: Sequence[Point]) -> list[Result]:
    """Submit one after another; Ctrl-C leaves the rest alone, and what was submitted is told."""
    with _Makers(points) as makers:
        found = _submit_each(points, makers.made)
    rest = points[len(found) :]
    return [*found, *(Result(point, State.not_started, reason="interrupted") for point in rest)]


def _submit_each(points: Sequence[Point], made: Sequence[Future[RunDir]]) -> list[Result]:
    at_once = points[0].config.launch.max_parallel or len(points)
    lanes: list[tuple[str, ...]] = [()] * at_once
    found: list[Result] = []
    interrupts = Interrupts()  # counted: between sbatch and its answer a job would be lost
    with interrupts.caught():
        for point, run in zip(points, made, strict=True):
            lane = len([one for one in found if one.jobs]) % at_once
            found.append(_submit(point, run, lanes[lane]))
            lanes[lane] = found[-1].jobs or lanes[lane]
            show(f"{point.number}/{len(points)}  {_told(once(found)[-1])}")
            if interrupts.count:
                break
    return found


def _submit(point: Point, made: Future[RunDir], after: Sequence[str]) -> Result:
    try:
        run = made.result()
        submitted = slurm.submit(point.config, run, run.next_attempt(), after)
    except (RodsError, OSError) as error:
        return Result(point, State.failed, reason=" ".join(str(error).split()))
    return Result(point, State.submitted, run.path, tuple(job.job_id for job in submitted))


class _Makers:
    """Makes the run directories ahead of their submission, several at once.

    A shared file system answers slowly, and sbatch does not wait for it. At the end those that were not submitted are
    removed: nothing ran, and a folder that is no run would only be in the way.

    Attributes:
        made: the directories, in the points' order.
    """

    def __init__(self, points: Sequence[Point]) -> None:
        self._sweep = {"id": secrets.token_hex(4), "of": len(points)}
        self._pool = ThreadPoolExecutor(_AT_ONCE)
        self._first: RunDir | None = None
        first, *others = points
        self.made = [self._pool.submit(self._make, first)]
        wait(self.made)  # the others share its code
        if self.made[0].exception() is None:
            self._first = self.made[0].result()
        self.made += [self._pool.submit(self._make, point) for point in others]

    def _make(self, point: Point) -> RunDir:
        run = launching.create(point.config, point.plan, list(point.overrides), self._first)
        run.update_manifest(sweep={**self._sweep, "run": point.number})
        return run

    def __enter__(self) -> _Makers:
        return self

    def __exit__(self, *_error: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        for future in self.made:
            if not future.cancelled() and future.exception() is None:
                run = future.result()
                owner.release(run)
                if not jobs.read(run):
                    shutil.rmtree(run.path, ignore_errors=True)


def _told(one: Result) -> str:
    return f"job {','.join(one.jobs)}  {one.path}" if one.jobs else f"not submitted: {one.reason}"


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


def judge(one: Result, infos: Sequence[JobInfo]) -> Result:
    """What the states of a run's jobs mean for it; `one` itself while it may still go on."""
    assert one.path is not None
    if any(job.row.phase is not Phase.over or job.row.returns for job in infos):
        return one
    if stop.is_finished(RunDir(one.path)):
        return replace(one, state=State.finished)
    told = [f"job {job.job_id}: {job.row.sentence}" for job in infos if not job.row.ok]
    return replace(one, state=State.failed, reason="; ".join(told) or "ended before the end of the run")


def _status(found: Sequence[Result]) -> int:
    return 0 if all(one.state in GOOD for one in found) else FAILED
