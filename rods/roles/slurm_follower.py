"""Follow a submitted run from the login node: nothing is trained here, and Ctrl-C ends only the following.

How the run went, its trainer has written into the run directory. Slurm is asked whether anything still goes on, and
what became of a trainer that was killed and could write nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from launchers import scheduler
from launchers.scheduler import JobInfo
from launchers.states import Phase
from rods.exchange import stop
from rods.exchange.rundir import RunDir
from rods.roles import outcome as outcomes
from rods.roles.outcome import Outcome, Status
from rods.watch.progress import Forgiving

POLL_S = 2.0
_ALIVE = (Phase.waiting, Phase.running, Phase.ending)
Query = Callable[[Iterable[str]], Mapping[str, JobInfo]]


def follow(
    run: RunDir,
    trainers: Sequence[str],
    on_tick: Callable[[], None],
    *,
    query: Query = scheduler.query,
    sleep: Callable[[float], None] = time.sleep,
) -> Outcome:
    """Block until the run has ended for good, and record how where nobody else could.

    Args:
        trainers: ids of the jobs that train, of which a chain has several.
        on_tick: called every few seconds, for the progress view.
        query: asks Slurm; may answer from memory.

    Raises:
        CorruptFileError: what the trainer recorded is damaged.
    """
    shown = Forgiving(on_tick)
    try:
        while (ended := judge(run, query(trainers))) is None:
            shown.tick()
            sleep(POLL_S)
    except KeyboardInterrupt:
        return Outcome(
            Status.interrupted, f"no longer following; the run goes on (rods cancel {run.path} stops it)"
        )
    outcomes.record(run, run.last_attempt(), ended)
    return ended


def judge(run: RunDir, infos: Mapping[str, JobInfo]) -> Outcome | None:
    """What Slurm's answer means for the run; None while it may still go on. A job it does not know may.

    Args:
        infos: of every job that trains, in the order of their submission.
    """
    if stop.is_finished(run):
        return Outcome(Status.finished, "the run finished")
    if any(info.row.phase in _ALIVE or _comes_back(info) for info in infos.values()):
        return None
    said = outcomes.read(run, run.last_attempt())
    if said is not None and said.status is not Status.requeued:
        return said
    last = list(infos.values())[-1]
    if last.row.phase is Phase.unknown:
        return None
    status = Status.stopped if last.row.ok or last.row.word == "CANCELLED" else Status.failed
    advice = f"; {last.row.advice}" if last.row.advice else ""
    return Outcome(status, f"job {last.job_id} {last.row.sentence}{advice} (output: {run.attempts})")


def _comes_back(info: JobInfo) -> bool:
    """A job that was preempted or lost a node is in the queue again, unless only accounting still knows it."""
    return info.row.phase is Phase.over and info.row.returns and info.source == "squeue"
