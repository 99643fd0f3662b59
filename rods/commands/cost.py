"""`rods cost`: GPU-hours and energy."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from rods.commands.common import LATEST, find_run, flag, reading


def cost(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...", help="Run directories, names under ./runs, or 'latest' (the default)."
        ),
    ] = None,
    as_json: Annotated[bool, flag("--json", help="Print the accounts as JSON.")] = False,
) -> None:
    """What runs cost in GPU-hours: planned, used, lost to restarts; training beside synthesis, as the paper counts.

    planned: time limit × GPUs of one attempt, if there is a limit. used: of all starts of all jobs. lost: what a
    trainer did after the checkpoint that the next attempt went on from. From Slurm's accounting; where that has
    nothing, from the times of the files in the run directory, and it is said which.

    Examples:

    - `rods cost`
    - `rods cost runs/A runs/B`
    - `rods cost NAME --json`
    """
    from rich.console import Console

    from rods.exchange.rundir import RunDir
    from rods.watch import spending, spending_table

    accounts = []
    for run in runs or [LATEST]:
        directory = RunDir.open(find_run(run))
        with reading(directory.path):
            accounts.append(spending.read(directory))
    if as_json:
        typer.echo(json.dumps([account.to_json() for account in accounts], indent=1))
    else:
        spending_table.show(accounts, Console())
