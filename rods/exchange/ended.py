"""How a run's last attempt ended, for those who only read the run's directory."""

from __future__ import annotations

from rods.exchange import stop
from rods.exchange.atomic import CorruptFileError, read_json
from rods.exchange.rundir import RunDir


def remark(run: RunDir) -> str:
    """What a reader of `run` who needs no more than its other files is told of its end: that it failed and why, or
    that the record is damaged; "" where there is nothing to tell.
    """
    try:
        why = failure(run)
    except CorruptFileError as error:
        return f"how {run.path.name} ended is not known: {error}"
    return f"{run.path.name} failed: {why}" if why else ""


def failure(run: RunDir) -> str:
    """Why the last attempt of `run` failed, as it recorded it, its log's last lines below; "" where none did.

    Raises:
        CorruptFileError: the record is damaged; names it.
    """
    file = run.attempt_dir(run.last_attempt()) / "outcome.json"
    if stop.is_finished(run) or not file.is_file():
        return ""
    body = read_json(file)
    try:
        return str(body["sentence"]) if body["status"] == "failed" else ""
    except (KeyError, TypeError) as error:
        raise CorruptFileError(
            f"{file}: expected how the attempt ended, found {str(body)[:200]}; remove the file, nothing is computed "
            "from it"
        ) from error
