"""`rods logs`: what a role wrote."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from rods.commands.common import LATEST, POLL_S, RunArgument, UsageError, find_run, flag

if TYPE_CHECKING:
    from rods.exchange.rundir import RunDir
    from rods.watch.logs import Log


def logs(
    run: RunArgument = LATEST,
    role: Annotated[
        str, typer.Argument(help="train, synthesis, synthesis-1, supervisor, server, slurm")
    ] = "train",
    follow: Annotated[bool, flag("-f", "--follow", help="Keep printing what is added.")] = False,
    attempt: Annotated[
        int | None, typer.Option(min=1, help="Of this start; default: of the newest that has such a log.")
    ] = None,
    every: Annotated[bool, flag("--all", help="Of all attempts, oldest first.")] = False,
    lines: Annotated[
        int | None, typer.Option("-n", "--lines", min=0, help="Only the last N of each file.")
    ] = None,
    as_json: Annotated[bool, flag("--json", help="One JSON object a line.")] = False,
) -> None:
    """Print a role's output and error output.

    A name stands for all that begins with it: synthesis for every daemon, server for every model server, slurm for
    what the batch scripts of its jobs printed.

    Examples:

    - `rods logs -f`
    - `rods logs latest synthesis`
    - `rods logs NAME synthesis-1 --attempt 2`
    - `rods logs NAME server -n 50`
    """
    from rods.exchange.rundir import RunDir

    directory = RunDir.open(find_run(run))
    printer = _Printer(as_json, lines, follow)
    try:
        printer.show(_chosen(directory, role, attempt, every))
        since = attempt or max(log.attempt for log in _chosen(directory, role, attempt, every))
        while follow:
            time.sleep(POLL_S)
            printer.show(_still(directory, role, attempt, since))
    except KeyboardInterrupt:
        raise typer.Exit from None


def _chosen(run: RunDir, role: str, attempt: int | None, every: bool) -> list[Log]:
    from rods.watch import logs as files

    there = files.find(run)
    mine = files.of_role(there, role)
    chosen = [log for log in mine if attempt in (None, log.attempt)]
    if not chosen:
        of = f" in attempt {attempt}" if attempt and mine else ""
        names = ", ".join(files.names(there)) or "none"
        raise UsageError(f"no log of role {role!r}{of} under {run.attempts}; there are: {names}")
    return chosen if every or attempt else files.newest(chosen)


def _still(run: RunDir, role: str, attempt: int | None, since: int) -> list[Log]:
    """What may be written to from now on: also files of attempts that begin later."""
    from rods.watch import logs as files

    mine = files.of_role(files.find(run), role)
    return [
        log for log in mine if (log.attempt == attempt if attempt else log.attempt >= since or log.series)
    ]


class _Printer:
    """Prints what is new, with a heading where it comes from another process than before."""

    def __init__(self, as_json: bool, lines: int | None, follow: bool) -> None:
        from rods.watch.logs import Follower

        self._follower, self._as_json, self._lines, self._follow = Follower(), as_json, lines, follow
        self._source: tuple[int, str, str] | None = None

    def show(self, logs: list[Log]) -> None:
        from rods.watch.logs import last_lines

        several = len({(log.attempt, log.series, log.stem) for log in logs}) > 1
        for log in logs:
            data = last_lines(self._follower.news(log.path, hold=self._follow), self._lines)
            if data and self._as_json:
                self._objects(log, data)
            elif data:
                self._text(log, data, several)
        self._lines = None  # what is added later is all shown
        sys.stdout.flush()

    def _objects(self, log: Log, data: bytes) -> None:
        for line in data.decode(errors="replace").splitlines():
            print(json.dumps({"attempt": log.attempt, "file": log.label, "line": line}, ensure_ascii=False))

    def _text(self, log: Log, data: bytes, several: bool) -> None:
        source = (log.attempt, log.series, log.stem)
        if source != self._source and (several or self._source is not None):
            print(f"==> {log.label} <==", flush=True)
        self._source = source
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
