"""`rods resume`: go on with a run."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Annotated

import typer

from rods.commands.common import LATEST, RunArgument, find_run, flag


def resume(
    run: RunArgument = LATEST,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="Of cluster, launch or tracking; cluster=NAME for a profile."
        ),
    ] = None,
    as_json: Annotated[
        bool,
        flag("--json", help="Print run, attempt and jobs as JSON; the rest goes to the error output."),
    ] = False,
) -> None:
    """Go on with a run from its newest checkpoint, as it was frozen; works from any folder.

    How it is launched may change (time limit, partition, this machine or Slurm), the experiment stays. Refused while
    a job of it is in the queue or a role of it gives signs of life. Exit status as that of launch.py.

    Examples:

    - `rods resume`
    - `rods resume NAME cluster.time_hours=24 cluster.partition=gpu`
    - `rods resume NAME launch.mode=wait`
    """
    from launchers import jobs
    from rods.exchange.rundir import RunDir
    from rods.roles import resuming

    if "=" in run:  # no name of a run has one: the run was left out
        run, overrides = LATEST, [run, *(overrides or [])]
    directory = RunDir.open(find_run(run))
    with contextlib.redirect_stdout(sys.stderr if as_json else sys.stdout):
        status = resuming.resume(directory, overrides or [])
    if as_json:
        attempt = directory.last_attempt()
        started = [job.job_id for job in jobs.read(directory) if job.attempt == attempt]
        typer.echo(
            json.dumps({"run": str(directory.path), "attempt": attempt, "jobs": started, "status": status})
        )
    raise typer.Exit(status)
