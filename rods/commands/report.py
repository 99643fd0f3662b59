"""`rods report`: build a run's report again."""

from __future__ import annotations

import typer

from rods.commands.common import LATEST, RunArgument, find_run, reading


def report(run: RunArgument = LATEST) -> None:
    """Build the report of a run again and print where it is."""
    from analysis.report import build
    from rods.exchange import permissions
    from rods.exchange.rundir import RunDir

    directory = RunDir.open(find_run(run)).path
    permissions.adopt_from(directory)
    with reading(directory):
        paths = build(directory)
    typer.echo(str(paths.html))
    for plot in paths.plots:
        typer.echo(str(plot))
