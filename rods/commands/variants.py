"""`rods variants`: what synthesis made."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from rods.commands.common import LATEST, RunArgument, UsageError, find_run, flag, reading


def variants(
    run: RunArgument = LATEST,
    rejected: Annotated[bool, flag("--rejected", help="Only what was rejected.")] = False,
    task_type: Annotated[str, typer.Option("--type", help="Only this task type.")] = "",
    seed: Annotated[str, typer.Option(help="Only of this task, or of this root.")] = "",
    as_json: Annotated[bool, flag("--json", help="One JSON object a line.")] = False,
    html: Annotated[bool, flag("--html", help="Write report/variants.html, print where it is.")] = False,
) -> None:
    """List what synthesis made in a run, or in the folder of a static dataset: accepted and rejected, with reasons.

    Examples:

    - `rods variants --rejected`
    - `rods variants NAME --type miss_func --html`
    - `rods variants data/small`
    """
    from rods.exchange.rundir import RunDir
    from rods.tasks.model import TaskType
    from rods.variants import collect, dataset, page, table

    if task_type and task_type not in (known := [str(each) for each in TaskType]):
        raise UsageError(f"--type {task_type}: expected one of {', '.join(known)}")
    folder, wanted = find_run(run), collect.Filter(rejected, task_type, seed)
    directory = None if dataset.is_dataset(folder) else RunDir.open(folder)
    with reading(folder):
        made = dataset.collect(folder) if directory is None else collect.collect(directory)
        items = [item for item in made if wanted.takes(item)]
        if html:
            parents = dataset.parents(folder) if directory is None else collect.parents(directory)
            typer.echo(str(page.build(folder, parents, items)))
        elif as_json:
            for item in items:
                typer.echo(json.dumps(item.to_json(), ensure_ascii=False))
        else:
            table.show(items)
