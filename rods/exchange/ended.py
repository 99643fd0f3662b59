"""How a run's last attempt ended, for those who only read the run's directory."""

from __future__ import annotations

from rods.exchange import stop
from rods.exchange.atomic import CorruptFileError, read_json
from rods.exchange.rundir import RunDir


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
