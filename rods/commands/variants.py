"""`rods variants`: what synthesis made."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from rods.commands.common import LATEST, RunArgument, find_run, reading


def variants(
    run: RunArgument = LATEST,
    rejected: Annotated[bool, typer.Option("--rejected", help="Only what was rejected.")] = False,
    task_type: Annotated[str, typer.Option("--type", help="Only this task type.")] = "",
    seed: Annotated[str, typer.Option(help="Only of this task, or of this root.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    html: Annotated[
        bool, typer.Option("--html", help="Write report/variants.html, print where it is.")
    ] = False,
) -> None:
    """List what synthesis made: accepted variants and rejected requests, with reasons."""
    from rods.exchange.rundir import RunDir
    from rods.variants import page, table
    from rods.variants.collect import Filter, collect

    directory, wanted = RunDir.open(find_run(run)), Filter(rejected, task_type, seed)
    with reading(directory.path):
        items = [item for item in collect(directory) if wanted.takes(item)]
        if html:
            typer.echo(str(page.build(directory, items)))
        elif as_json:
            for item in items:
                typer.echo(json.dumps(item.to_json(), ensure_ascii=False))
        else:
            table.show(items)
