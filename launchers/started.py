"""All Slurm jobs of a run: those that were submitted for it, and those that a person submitted from its batch files.

The latter are in no list, but each of their starts left its number in the folder that it took. Nor are those whose
submission was killed before it could list them (`launchers.lost_answer`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from launchers import jobs, lost_answer
from launchers.jobs import SubmittedJob
from launchers.resources import SYNTHESIS, TRAIN
from rods.exchange.rundir import RunDir

_NOTE = re.compile(r"(\d+)\.\d+\s*")  # job and restart count, as the batch text writes it


def of_run(run: RunDir) -> list[SubmittedJob]:
    """The run's jobs, those of the list first, each once.

    Raises:
        LaunchError: the list is damaged.
        SnapshotError: the configuration is, and a submission was killed.
        OSError: a folder cannot be read.
    """
    listed = jobs.read(run)
    numbers = {job.job_id for job in listed}
    listed += [job for job in lost_answer.of_run(run) if job.job_id not in numbers]
    known = {job.job_id for job in listed}
    found = list(listed)
    for job_id, file in _starts(run):
        if job_id not in known:
            known.add(job_id)
            found.append(_unlisted(job_id, file, _series(run, file), listed))
    return found


def _starts(run: RunDir) -> Iterator[tuple[str, Path]]:
    """Each start's job and the file that says so, oldest first."""
    files = [*run.attempts.glob(f"[0-9]*/{jobs.START}"), *run.attempts.glob(f"[!0-9]*/[0-9]*/{jobs.START}")]
    for file in sorted(files):
        match = _NOTE.fullmatch(file.read_text(errors="replace"))
        if match and file.parent.name.isdigit():
            yield match[1], file


def _series(run: RunDir, file: Path) -> str:
    """Whose starts they are: "" the run's own, else those of one daemon's jobs."""
    folder = file.parents[1]
    return "" if folder == run.attempts else folder.name


def _unlisted(job_id: str, file: Path, series: str, listed: Sequence[SubmittedJob]) -> SubmittedJob:
    """A job like the newest listed one of its kind."""
    role = SYNTHESIS if series else TRAIN
    number = series.rpartition("-")[2]
    replica = (int(number) if number.isdigit() else 0) if series else None
    own = SubmittedJob(job_id, (role,), "pair" if series else "het", 1, 0.0, {}, replica)
    like = next((job for job in reversed(listed) if role in job.roles and job.replica == replica), own)
    return replace(like, job_id=job_id, attempt=int(file.parent.name), time=file.stat().st_mtime)
