"""How an attempt of a run ended, for a person and for the next attempt: `attempts/<n>/outcome.json`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from rods.exchange.atomic import CorruptFileError, read_json, write_json
from rods.exchange.rundir import RunDir

_FILE = "outcome.json"


class Status(StrEnum):
    """How an attempt ended. Only `finished` exits with 0: what was asked for was not done otherwise.

    `requeued`: this attempt is over, and Slurm starts the next one by itself.
    """

    finished = "finished"
    stopped = "stopped"
    requeued = "requeued"
    failed = "failed"
    interrupted = "interrupted"


_EXIT_CODES = {
    Status.finished: 0,
    Status.stopped: 1,
    Status.requeued: 1,
    Status.failed: 1,
    Status.interrupted: 130,
}


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended, with one sentence for a person."""

    status: Status
    sentence: str

    @property
    def exit_code(self) -> int:
        """The status that launch.py exits with."""
        return _EXIT_CODES[self.status]


def path(run: RunDir, attempt: int) -> Path:
    """Where the outcome of `attempt` is recorded."""
    return run.attempt_dir(attempt) / _FILE


def record(run: RunDir, attempt: int, outcome: Outcome) -> None:
    """Write it into the attempt's folder.

    Raises:
        OSError: it cannot be written.
    """
    body = {"status": str(outcome.status), "exit_code": outcome.exit_code, "sentence": outcome.sentence}
    write_json(path(run, attempt), body)


def read(run: RunDir, attempt: int) -> Outcome | None:
    """What was recorded of `attempt`; None when nothing was.

    Raises:
        CorruptFileError: the file is damaged; names it.
    """
    try:
        body = read_json(path(run, attempt))
        return Outcome(Status(body["status"]), str(body["sentence"]))
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(
            f"{path(run, attempt)}: expected how the attempt ended, found {type(error).__name__}: {error}; "
            "remove the file, nothing is computed from it"
        ) from error
