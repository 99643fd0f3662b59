"""`rods scale`: more synthesis daemons for a running experiment."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from rods.commands.common import LATEST, RunArgument, find_run, flag


def scale(
    run: RunArgument = LATEST,
    daemons: Annotated[int, typer.Option("--daemons", "-n", help="How many more, one node each.")] = 1,
    as_json: Annotated[bool, flag("--json", help="Print the submitted jobs as JSON.")] = False,
) -> None:
    """Submit more synthesis daemons for a running experiment on Slurm, each as a job of its own.

    They take seeds from the same queue, end with the run, and can be cancelled one by one (`scancel JOB`).

    Example: `rods scale --daemons 3`
    """
    from launchers.scale import scale as add
    from rods.exchange.rundir import RunDir

    added = add(RunDir.open(find_run(run)), daemons)
    if as_json:
        typer.echo(json.dumps([{"job_id": job.job_id, "replica": job.replica} for job in added], indent=1))
        return
    for job in added:
        typer.echo(f"submitted job {job.job_id}: synthesis daemon {job.replica}")
