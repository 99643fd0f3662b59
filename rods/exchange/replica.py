"""The names under which the processes of one role write, so that every file keeps its one writer.

A role that several processes fill at once (the synthesis: any number of daemons share a queue) needs as many
journals, metrics files and heartbeats. Which of them a process is, its launcher says in `RODS_REPLICA`: 0 or
nothing for the first, whose files have the role's own name, 1 for `<role>-1`, and so on. A daemon in a Slurm job of
its own starts and stops apart from the trainer: `RODS_SERIES` names the folder under `attempts/` where its starts are
numbered.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rods.errors import RodsError
from rods.exchange import journal
from rods.exchange.metrics import read_metrics
from rods.exchange.rundir import RunDir

VARIABLE = "RODS_REPLICA"
SERIES_VARIABLE = "RODS_SERIES"
_NUMBER = re.compile(r"0|[1-9][0-9]{0,3}", re.ASCII)
_SERIES = re.compile(r"([A-Za-z][A-Za-z0-9-]*)?")


class ReplicaError(RodsError):
    """A replica's number that is none."""


def writer(role: str, environment: Mapping[str, str] = os.environ) -> str:
    """The name that this process of `role` writes under.

    Raises:
        ReplicaError: `RODS_REPLICA` is no number from 0 to 9999.
    """
    number = environment.get(VARIABLE, "0")
    if not _NUMBER.fullmatch(number):
        raise ReplicaError(
            f"{VARIABLE}: expected a number from 0 to 9999 that no other process of the role {role} in this attempt "
            f"has, found {number!r}. Set it to 0, or leave it out, for a role of one process."
        )
    return name(role, int(number))


def open_run(path: Path, environment: Mapping[str, str] = os.environ) -> RunDir:
    """The run directory at `path`, with the attempts that this process belongs to.

    Raises:
        ReplicaError: `RODS_SERIES` cannot be a folder's name.
        NotARunDirError: it is none.
    """
    series = environment.get(SERIES_VARIABLE, "")
    if not _SERIES.fullmatch(series):
        raise ReplicaError(
            f"{SERIES_VARIABLE}: expected nothing or a name such as synthesis-1, found {series!r}. Only the batch file "
            "of a daemon in a job of its own sets it."
        )
    return RunDir.open(path, series)


def name(role: str, number: int) -> str:
    """What process `number` (from 0) of `role` writes under."""
    return f"{role}-{number}" if number else role


def writes_for(role: str, writer: str) -> bool:
    """Whether `writer` is a name that a process of `role` writes under."""
    prefix, _, number = writer.rpartition("-")
    return writer == role or (prefix == role and number != "0" and bool(_NUMBER.fullmatch(number)))


def read_journals(run: RunDir, role: str) -> list[dict[str, Any]]:
    """Every record of every process of `role`, by process and attempt.

    Raises:
        JournalError: a journal is damaged, or there is a file that is none.
    """
    paths = [path for path in journal.files(run.journal_dir) if writes_for(role, journal.writer_of(path))]
    return [record for path in paths for record in journal.read(path)[0]]


def metrics_files(run: RunDir, role: str) -> list[Path]:
    """The metrics file of every process of `role` that has written one, by number."""
    found = [path for path in run.metrics.glob(f"{role}*.jsonl") if writes_for(role, path.stem)]
    return sorted(found, key=lambda path: (len(path.stem), path.stem))


def totals(run: RunDir, role: str, counters: tuple[str, ...]) -> dict[str, int]:
    """What the processes of `role` have counted together: the sums over the newest line of each.

    Args:
        counters: cumulative; one that nobody has written yet is left out.

    Raises:
        CorruptFileError: a metrics file is damaged.
        TypeError: a counter is no number.
    """
    newest = [lines[-1] for path in metrics_files(run, role) if (lines := read_metrics(path))]
    return {
        counter: sum(line.get(counter, 0) for line in newest)
        for counter in counters
        if any(counter in line for line in newest)
    }
