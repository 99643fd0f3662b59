"""What each word that Slurm has for a job's state means for a run, and what a person may do about it.

The words are those of squeue(1) and sacct(1), of Slurm 22.05 and newer. One that is not in the table is unknown,
which is never taken for an end: a run that is given up while it goes on costs more than a query too many.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """Where a job stands: not started or paused; at work; on its way out; ended; cannot be told."""

    waiting = "waiting"
    running = "running"
    ending = "ending"
    over = "over"
    unknown = "unknown"


@dataclass(frozen=True)
class Row:
    """One state of a job.

    Attributes:
        word: Slurm's word for it, or the word that was not understood.
        code: Slurm's short form (`squeue -o %t`), "" where it has none.
        phase: where the job stands.
        ok: nothing has gone wrong so far.
        returns: Slurm itself takes the job up again, without a person (our jobs are submitted with --requeue). It is
            said of a job that waits, and of one whose present start is over.
        sentence: what it means, for a person.
        advice: what to do; "" when nothing is to be done.
    """

    word: str
    code: str
    phase: Phase
    ok: bool
    returns: bool
    sentence: str
    advice: str = ""


_RELEASE = "let it go with `scontrol release JOB`"
_RESUME = "see the role's output in attempts/, then continue the run: rods resume RUN"
_SITE = "ask the site's administrators"

_WAITING = (
    Row("PENDING", "PD", Phase.waiting, True, True, "waits for its resources to be free"),
    Row("CONFIGURING", "CF", Phase.waiting, True, True, "has its nodes, which are being made ready"),
    Row("REQUEUED", "RQ", Phase.waiting, True, True, "was put back into the queue and will start again"),
    Row("REQUEUE_FED", "RF", Phase.waiting, True, True, "is being put back into the federation's queue"),
    Row("POWER_UP_NODE", "", Phase.waiting, True, True, "has its nodes, which are being switched on"),
    Row("SUSPENDED", "S", Phase.waiting, True, True, "is paused; its CPUs serve other jobs meanwhile"),
    Row("STOPPED", "ST", Phase.waiting, True, True, "is paused by a signal and keeps its resources"),
    Row(
        "REQUEUE_HOLD",
        "RH",
        Phase.waiting,
        False,
        False,
        "was put back into the queue, where Slurm holds it",
        f"find out why with `scontrol show job JOB`, then {_RELEASE}",
    ),
    Row(
        "SPECIAL_EXIT",
        "SE",
        Phase.waiting,
        False,
        False,
        "was put back into the queue and is held, as the site asks for its exit status",
        f"{_SITE} what this exit status means; {_RELEASE}",
    ),
    Row(
        "RESV_DEL_HOLD",
        "RD",
        Phase.waiting,
        False,
        False,
        "is held, since the reservation that it asked for was deleted",
        f"name another reservation or none with `scontrol update JobId=JOB ReservationName=`, then {_RELEASE}",
    ),
)
_RUNNING = (
    Row("RUNNING", "R", Phase.running, True, False, "runs"),
    Row("RESIZING", "RS", Phase.running, True, False, "runs and is about to change its size"),
    Row("SIGNALING", "SI", Phase.running, True, False, "runs and is being sent a signal"),
    Row("EXPEDITING", "", Phase.running, True, False, "is being started ahead of the queue"),
)
_ENDING = (
    Row(
        "COMPLETING", "CG", Phase.ending, True, False, "has ended; its last processes are being cleared away"
    ),
    Row("STAGE_OUT", "SO", Phase.ending, True, False, "has ended; its files are being staged out"),
    Row("UPDATE_DB", "", Phase.ending, True, False, "has ended; accounting is being told"),
)
_OVER = (
    Row("COMPLETED", "CD", Phase.over, True, False, "ended with exit status 0"),
    Row(
        "CANCELLED", "CA", Phase.over, False, False, "was cancelled by a person", "to go on: rods resume RUN"
    ),
    Row("FAILED", "F", Phase.over, False, False, "ended with an exit status other than 0", _RESUME),
    Row(
        "TIMEOUT",
        "TO",
        Phase.over,
        False,
        False,
        "came to its time limit before a checkpoint was written and the job put back",
        "raise cluster.signal_seconds (or cluster.time_hours), then continue the run: rods resume RUN",
    ),
    Row(
        "OUT_OF_MEMORY",
        "OOM",
        Phase.over,
        False,
        False,
        "was killed for using more memory than it had asked for",
        "raise mem_gb of the role (cluster.train, cluster.synthesis), then continue the run: rods resume RUN",
    ),
    Row(
        "PREEMPTED",
        "PR",
        Phase.over,
        False,
        True,
        "had to make room for another job and goes back to the queue",
    ),
    Row("NODE_FAIL", "NF", Phase.over, False, True, "lost a node and goes back to the queue"),
    Row(
        "BOOT_FAIL",
        "BF",
        Phase.over,
        False,
        False,
        "could not be started: a node did not boot",
        "continue the run: rods resume RUN; leave the node out with cluster.extra.exclude=NODE if it comes again",
    ),
    Row(
        "DEADLINE",
        "DL",
        Phase.over,
        False,
        False,
        "could not end before the deadline it was given",
        "submit without --deadline (cluster.extra), then continue the run: rods resume RUN",
    ),
    Row(
        "REVOKED",
        "RV",
        Phase.over,
        False,
        False,
        "was taken from this cluster: another one of the federation started it",
        "look for it with `squeue --federation`",
    ),
    Row(
        "LAUNCH_FAILED",
        "",
        Phase.over,
        False,
        False,
        "could not be started on its nodes",
        f"continue the run: rods resume RUN; {_SITE} if it comes again",
    ),
    Row(
        "RECONFIG_FAIL",
        "",
        Phase.over,
        False,
        False,
        "could not be started: its nodes could not be set up",
        f"continue the run: rods resume RUN; {_SITE} if it comes again",
    ),
)
TABLE = (*_WAITING, *_RUNNING, *_ENDING, *_OVER)
_ROWS = {name: row for row in TABLE for name in (row.word, row.code) if name}
_ABRIDGED = "+"  # what sacct ends a word with that its column is too narrow for


def lookup(text: str) -> Row:
    """The row of a state as squeue or sacct print it: "RUNNING", "cd", "CANCELLED by 1000", "OUT_OF_ME+"."""
    word = text.split()[0].upper() if text.split() else ""
    stem = word.rstrip(_ABRIDGED)
    row = _ROWS.get(stem) or (_completed(stem) if stem != word else None)
    if row is not None:
        return row
    return Row(
        word or "UNKNOWN",
        "",
        Phase.unknown,
        True,
        False,
        f"Slurm says {text.strip()!r}, which is not known here" if stem else "Slurm says nothing of it",
        "ask with `scontrol show job JOB` or `sacct -j JOB`",
    )


def _completed(stem: str) -> Row | None:
    """The one row whose word begins with `stem`."""
    found = [row for row in TABLE if stem and row.word.startswith(stem)]
    return found[0] if len(found) == 1 else None
