"""`rods ls`: all runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rods.commands.common import RUNS, UsageError, flag


def ls(
    runs: Annotated[Path, typer.Option("--runs", help="The folder that the runs lie in.")] = RUNS,
    as_json: Annotated[bool, flag("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List all runs, the newest last: state, attempt, step, reward, age, jobs that are not over, GPU-hours.

    Examples:

    - `rods ls`
    - `rods ls --runs /shared/runs`
    - `rods ls --json`
    """
    from rich.console import Console

    from rods.watch.listing import list_runs
    from rods.watch.listing_table import table

    if runs != RUNS and not runs.is_dir():
        raise UsageError(f"--runs {runs}: expected a folder with runs, found none; give launch.runs_dir")
    lines = list_runs(runs) if runs.is_dir() else []
    if as_json:
        typer.echo(json.dumps([line.to_json() for line in lines], indent=1))
    elif not lines:
        typer.echo(f"no runs yet in {'./runs' if runs == RUNS else runs}; --runs names another folder")
    else:
        console = Console()
        console.print(table(lines, console.width))
        for line in lines:
            if line.trouble:
                console.print(f"{line.name}: {line.trouble}", style="red", markup=False, highlight=False)
