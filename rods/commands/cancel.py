"""`rods cancel`: end a run."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from rods.commands.common import RunArgument, find_run, flag

_WAIT_S, _NOW_WAIT_S = 600.0, 60.0


def cancel(
    run: RunArgument,
    now: Annotated[bool, flag("--now", help="At once, without a checkpoint first.")] = False,
    yes: Annotated[bool, flag("--yes", help="Do not ask.")] = False,
    wait: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds to wait for the end; default: 600, with --now 60. 0: do not wait."),
    ] = None,
    as_json: Annotated[bool, flag("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """End a run: the roles save their state and end, and its jobs leave the queue; `rods resume` goes on later.

    Jobs that wait are cancelled, those at work are asked through the run's stop file. With --now all jobs are
    cancelled at once, and what came after the last checkpoint is lost. Exit status 1 when it has not ended in time.

    Examples:

    - `rods cancel latest`
    - `rods cancel NAME --now --yes`
    """
    from launchers.scheduler import Scheduler
    from rods.exchange.rundir import RunDir
    from rods.roles.cancelling import POLL_S, Canceller

    directory, told = RunDir.open(find_run(run)), list[str]()
    canceller = Canceller(directory, told.append if as_json else typer.echo, Scheduler(cache_s=POLL_S / 2))
    target = canceller.target()
    how = "at once; what came after its last checkpoint is lost" if now else "after a checkpoint"
    wanted = target.goes_on and (
        yes or typer.confirm(f"{directory.name}: {target}. End it {how}?", err=as_json)
    )
    ended = not target.goes_on
    if wanted and now:
        ended = canceller.at_once(_NOW_WAIT_S if wait is None else wait)
    elif wanted:
        ended = canceller.cleanly(_WAIT_S if wait is None else wait)
    if as_json:
        jobs = [job.job_id for job in target.jobs]
        typer.echo(json.dumps({"run": directory.name, "jobs": jobs, "done": told, "ended": ended}, indent=1))
    else:
        typer.echo(_sentence(str(directory.path), target.goes_on, wanted, ended))
    raise typer.Exit(0 if ended or not wanted else 1)


def _sentence(name: str, went_on: bool, wanted: bool, ended: bool) -> str:
    if not went_on:
        return f"{name}: nothing of it runs or waits"
    if not wanted:
        return f"{name} goes on"
    return (
        f"{name} has ended; to go on: rods resume {name}"
        if ended
        else f"{name} has not ended yet; see rods status"
    )
