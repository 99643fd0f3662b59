"""How far the run had come at each of its starts, and so how many of them came to nothing.

A start that dies without a word (a kill, a lost node) cannot count itself. So each one notes at its beginning where
the newest checkpoint stands, and the next one compares.
"""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

from rods.exchange import marker
from rods.exchange.atomic import read_json, write_json
from rods.exchange.rundir import RunDir

_FILE = "begun.json"
_WRITER = "train"


def newest_step(run: RunDir) -> int:
    """Steps done in the newest complete checkpoint; 0 without one.

    Raises:
        JournalError: a journal's first record is damaged.
    """
    complete = marker.scan(run.checkpoints, run.journal_dir, _WRITER).complete
    return complete[-1].marker.step if complete else 0


def note(run: RunDir, attempt: int, job_id: str) -> None:
    """Say, at its beginning, where `attempt` begins and which job it belongs to.

    Raises:
        OSError: it cannot be written.
    """
    write_json(_file(run, attempt), {"job": job_id, "step": newest_step(run)})


def stalled(run: RunDir, attempt: int) -> int:
    """How many starts of the same job in a row, `attempt` the last of them, began where the run stands now.

    A job submitted by a person (a resume) counts anew.

    Raises:
        CorruptFileError: what an attempt noted is damaged.
    """
    body = _read(run, attempt)
    now = {"job": body.get("job"), "step": newest_step(run)}
    return sum(1 for _ in takewhile(lambda number: _read(run, number) == now, range(attempt, 0, -1)))


def _file(run: RunDir, attempt: int) -> Path:
    return run.attempt_dir(attempt) / _FILE


def _read(run: RunDir, attempt: int) -> dict[str, object]:
    try:
        body: dict[str, object] = read_json(_file(run, attempt))
    except FileNotFoundError:
        return {}
    return body
