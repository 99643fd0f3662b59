"""One way to ask a run to stop: a file in its directory that both roles look for.

It says who asked in which attempt, so that the next attempt does not obey it, and whether the run had come to
its end, so that a finished run is not continued.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rods.exchange import pressure
from rods.exchange.atomic import CorruptFileError, read_json, write_json
from rods.exchange.pressure import DiskFullError, at_once, say
from rods.exchange.rundir import RunDir

FINISHED = "finished"
_asked_here: set[tuple[Path, int]] = (
    set()
)  # by a signal to this process, whether or not the disk took the file


@dataclass(frozen=True)
class StopRequest:
    """Who asked for what.

    Attributes:
        attempt: the attempt that was asked to stop; None in a file that a person made.
        reason: `FINISHED`, or a phrase for people.
        then: a word for whoever ends the attempt, of what is to follow; "": nothing.
    """

    attempt: int | None
    reason: str
    then: str = ""


def read(run: RunDir) -> StopRequest | None:
    """The request that lies in the run directory."""
    try:
        body = read_json(run.stop_file)
        return StopRequest(int(body["attempt"]), str(body["reason"]), str(body.get("then", "")))
    except FileNotFoundError:
        return None
    except (CorruptFileError, KeyError, TypeError, ValueError):
        return StopRequest(None, f"{run.stop_file.name} was made by hand")


def request(run: RunDir, attempt: int, reason: str, then: str = "") -> None:
    """Ask both roles of `attempt` to stop cleanly. The first reason given stays, and so does a newer attempt's.

    Raises:
        OSError: the file cannot be made. On a full disk an empty one is tried, which says as much.
    """
    found = read(run)
    if found is not None and (found.attempt is None or found.attempt >= attempt):
        return
    with at_once():
        try:
            write_json(run.stop_file, {"attempt": attempt, "reason": reason, "then": then})
        except DiskFullError:
            pressure.attempt(run.stop_file.touch, run.stop_file)


def request_by_signal(run: RunDir, attempt: int, reason: str) -> None:
    """`request` from a signal handler: this process obeys also when the file cannot be made."""
    try:
        request(run, attempt, reason)
    except OSError as error:
        say(f"{run.stop_file} cannot be made ({error}); only this process stops")
    obey(run, attempt)


def obey(run: RunDir, attempt: int) -> None:
    """Let this process stop `attempt`'s work, whatever the file says; safe in a signal handler."""
    _asked_here.add((run.path, attempt))


def finish(run: RunDir, attempt: int) -> None:
    """Say that the run came to its end, whatever was asked meanwhile; the other roles stop too."""
    write_json(run.stop_file, {"attempt": attempt, "reason": FINISHED})


def is_requested(run: RunDir, attempt: int) -> bool:
    """Whether `attempt` was asked to stop."""
    if (run.path, attempt) in _asked_here:
        return True
    found = read(run)
    return (found is not None and found.attempt in (attempt, None)) or _all_must(run)


def _all_must(run: RunDir) -> bool:
    """Whether also a daemon that starts and stops apart has to stop: at the run's end, or when a person says so."""
    found = read(run.whole) if run.series else None
    return found is not None and (found.attempt is None or found.reason == FINISHED)


def is_finished(run: RunDir) -> bool:
    """Whether the trainer reached the end of the run."""
    found = read(run.whole)
    return found is not None and found.reason == FINISHED


def clear_stale(run: RunDir, attempt: int) -> None:
    """Remove a request that was not made to `attempt`."""
    found = read(run)
    if found is not None and (found.attempt is None or found.attempt < attempt):
        run.stop_file.unlink(missing_ok=True)
