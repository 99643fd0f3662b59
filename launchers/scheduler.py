"""What Slurm says of jobs: one question for all of them, asked again only when the answer has grown old.

squeue answers from the controller's memory and knows what waits, runs or has ended lately; accounting (sacct)
is asked for the rest. A scheduler that does not answer is told, never raised: the run directory is still there to
be looked at.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from launchers.states import Phase, Row, lookup

CACHE_S = 10.0
_AT_ONCE = 500  # ids in one question: far below what a command line may hold
_SQUEUE = ("squeue", "--noheader", "--all", "--states=all", "--format=%i|%T|%V|%S|%M|%l|%N|%r")
_SACCT = (
    *("sacct", "--allocations", "--noheader", "--parsable2", "--allusers", "--duplicates"),
    "--format=JobID,State,Submit,Start,End,ElapsedRaw,NodeList,AllocTRES,ConsumedEnergyRaw,ExitCode",
)
_TIMEOUT_S, _TIMEOUTS_S = 10.0, {"sacct": 30.0, "sacctmgr": 30.0}
# A person's defaults would filter the answer, or ask another cluster than the one that was submitted to.
_FOREIGN = re.compile(r"^(SQUEUE_|SACCT_|SLURM_(?!(CONF|JWT)$))")
_GPUS = re.compile(r"gres/gpu=(\d+)")
_ENERGY = re.compile(r"energy=(\d+)")
_CLOCK = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)$")
_LIVELY = (Phase.running, Phase.ending, Phase.waiting, Phase.unknown, Phase.over)


@dataclass(frozen=True)
class Answer:
    """What a command printed; `trouble` says why it printed nothing, "" when it worked."""

    text: str
    trouble: str = ""


@dataclass(frozen=True)
class Record:
    """One component of a job, in one of its starts; a job that is not heterogeneous has one component.

    Attributes:
        job_id: as Slurm prints it: "5", of a heterogeneous job "5+0", "5+1".
        row: what its state means.
        state: Slurm's own words, as "CANCELLED by 1000".
        reason: Slurm's word for why it waits or ended, "" for none.
        submit, start, end: seconds since 1970; None when not known. Of a waiting job `start` is when Slurm expects
            to start it.
        elapsed_s, limit_s: run time of this start, and its limit.
        nodes: as Slurm abbreviates them, "" for none.
        gpus: allocated ones; None when Slurm's answer did not say.
        energy_j: what its nodes consumed, in joules; None where the site does not measure it.
        exit_code: as accounting prints it, "status:signal"; "" from squeue.
    """

    job_id: str
    row: Row
    state: str
    reason: str = ""
    submit: float | None = None
    start: float | None = None
    end: float | None = None
    elapsed_s: float | None = None
    limit_s: float | None = None
    nodes: str = ""
    gpus: int | None = None
    energy_j: float | None = None
    exit_code: str = ""


@dataclass(frozen=True)
class JobInfo:
    """A job as Slurm sees it now.

    Attributes:
        row: of its components' states the liveliest one, since the job goes on as long as one of them does; of
            several that are over, one that went wrong.
        source: who answered: "squeue", "sacct", or "" for nobody.
        trouble: why nobody did; "" otherwise.
        gone: nobody said what became of it, but squeue answered, and it is not in the queue any more.
        components: newest start of each, in order.
    """

    job_id: str
    row: Row
    source: str = ""
    trouble: str = ""
    gone: bool = False
    components: tuple[Record, ...] = ()


def ask(command: Sequence[str]) -> Answer:
    """Run one of Slurm's commands that only ask, with times as seconds since 1970."""
    environment = {key: value for key, value in os.environ.items() if not _FOREIGN.match(key)}
    environment |= {"SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}
    timeout_s = _TIMEOUTS_S.get(command[0], _TIMEOUT_S)
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except FileNotFoundError:
        return Answer("", f"no {command[0]} on this machine")
    except subprocess.TimeoutExpired:
        return Answer("", f"{command[0]} gave no answer within {timeout_s:g} s")
    if done.returncode:
        return Answer("", f"{command[0]} failed: {_last_line(done.stderr) or _last_line(done.stdout)}")
    return Answer(done.stdout)


def _last_line(text: str) -> str:
    """What a command said last, which is what it gave up for."""
    lines = [line for line in text.splitlines() if line.strip()]
    return re.sub(r"^\w+: error: ", "", lines[-1].strip()) if lines else ""


class Scheduler:
    """Asks Slurm, in batches and not too often.

    Args:
        ask: runs a query command.
        cache_s: an answer serves for so long.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        ask: Callable[[Sequence[str]], Answer] = ask,
        cache_s: float = CACHE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask, self._cache_s, self._clock = ask, cache_s, clock
        self._known: dict[str, tuple[float, JobInfo]] = {}
        self._booked: dict[str, tuple[float, list[Record]]] = {}

    def query(self, job_ids: Iterable[str]) -> dict[str, JobInfo]:
        """Every job of `job_ids`, in that order; one that Slurm knows nothing of is in an unknown state."""
        wanted, now = list(dict.fromkeys(job_ids)), self._clock()
        old = [job for job in wanted if job not in self._known or now - self._known[job][0] >= self._cache_s]
        self._known |= {job: (now, info) for job, info in self._fresh(old).items()}
        return {job: self._known[job][1] for job in wanted}

    def starts(self, job_ids: Iterable[str]) -> tuple[dict[str, list[Record]], str]:
        """Every start of every job from accounting, requeued ones included, and what went wrong with asking."""
        wanted, now = list(dict.fromkeys(job_ids)), self._clock()
        old = [
            job for job in wanted if job not in self._booked or now - self._booked[job][0] >= self._cache_s
        ]
        records, trouble = self._records(old, _SACCT, parse_sacct)
        if not trouble:
            self._booked |= {job: (now, records.get(job, [])) for job in old}
        return {job: self._booked.get(job, (now, []))[1] for job in wanted}, trouble

    def _fresh(self, wanted: list[str]) -> dict[str, JobInfo]:
        queued, no_queue = self._records(wanted, _SQUEUE, parse_squeue)
        gone = [job for job in wanted if job not in queued]
        booked, no_books = self._records(gone, _SACCT, parse_sacct)
        trouble = "; ".join(part for part in (no_queue, no_books) if part)
        found = {job: _fold(job, "squeue", records) for job, records in queued.items()}
        found |= {job: _fold(job, "sacct", records) for job, records in booked.items()}
        lost = {job: _unanswered(job, trouble, not no_queue) for job in gone if job not in booked}
        return found | lost

    def _records(
        self, wanted: list[str], command: Sequence[str], parse: Callable[[str], list[Record]]
    ) -> tuple[dict[str, list[Record]], str]:
        """The records of each job that is known, and what went wrong with asking."""
        found: dict[str, list[Record]] = {}
        for first in range(0, len(wanted), _AT_ONCE):
            batch = wanted[first : first + _AT_ONCE]
            # Asked for one id that it does not know, squeue fails; asked for several, it leaves that one out.
            answer = self._ask([*command, f"--jobs={','.join(batch if len(batch) > 1 else batch * 2)}"])
            if answer.trouble:
                return found, answer.trouble
            for record in parse(answer.text):
                found.setdefault(lead(record.job_id), []).append(record)
        return found, ""


HERE = Scheduler()  # this process's: its answers are shared by all who ask


def query(job_ids: Iterable[str]) -> dict[str, JobInfo]:
    """`Scheduler.query` of this process's scheduler."""
    return HERE.query(job_ids)


def starts(job_ids: Iterable[str]) -> tuple[dict[str, list[Record]], str]:
    """`Scheduler.starts` of this process's scheduler."""
    return HERE.starts(job_ids)


def lead(job_id: str) -> str:
    """The id that sbatch printed, of a component or an array's element: "5" of "5+1" and of "5_1"."""
    return re.split(r"[+_]", job_id)[0]


def parse_squeue(text: str) -> list[Record]:
    """The records in what `squeue` printed; lines that are none (a cluster's heading) are left out."""
    rows = (line.split("|", 7) for line in text.splitlines())
    return [_from_squeue(row) for row in rows if len(row) == 8]


def parse_sacct(text: str) -> list[Record]:
    """The records in what `sacct` printed, oldest start first."""
    rows = (line.split("|") for line in text.splitlines())
    return sorted((_from_sacct(row) for row in rows if len(row) == 10), key=lambda row: row.submit or 0.0)


def _from_squeue(row: list[str]) -> Record:
    job_id, state, submit, start, elapsed, limit, nodes, reason = row
    return Record(
        job_id=job_id,
        row=lookup(state),
        state=state,
        reason="" if reason == "None" else reason,
        submit=_number(submit),
        start=_number(start),
        elapsed_s=_seconds(elapsed),
        limit_s=_seconds(limit),
        nodes=nodes,
    )


def _from_sacct(row: list[str]) -> Record:
    job_id, state, submit, start, end, elapsed, nodes, tres, energy, exit_code = row
    gpus, booked = _GPUS.search(tres), _ENERGY.search(tres)
    return Record(
        job_id=job_id,
        row=lookup(state),
        state=state,
        submit=_number(submit),
        start=_number(start),
        end=_number(end),
        elapsed_s=_number(elapsed),
        nodes="" if nodes == "None assigned" else nodes,
        gpus=int(gpus[1]) if gpus else (0 if tres else None),
        # Where nothing measures, Slurm books zero or nothing.
        energy_j=(_number(booked[1]) if booked else None) or _number(energy) or None,
        exit_code=exit_code,
    )


def _fold(job_id: str, source: str, records: list[Record]) -> JobInfo:
    newest: Mapping[str, Record] = {record.job_id: record for record in records}
    components = tuple(newest[key] for key in sorted(newest, key=_in_order))
    liveliest = min(components, key=lambda part: (_LIVELY.index(part.row.phase), part.row.ok))
    return JobInfo(job_id, liveliest.row, source, components=components)


def _in_order(job_id: str) -> tuple[int, str]:
    return (len(job_id), job_id)


def _unanswered(job_id: str, trouble: str, gone: bool) -> JobInfo:
    told = trouble or "neither squeue nor sacct knows this job"
    return JobInfo(job_id, lookup(""), trouble=told, gone=gone)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None  # Unknown, N/A, ""


def _seconds(text: str) -> float | None:
    """Slurm's [days-][hours:]minutes:seconds; None for UNLIMITED, INVALID, NOT_SET."""
    found = _CLOCK.match(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
