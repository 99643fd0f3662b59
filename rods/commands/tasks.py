"""`rods tasks`: look at seed tasks."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from rods.commands.common import flag


def audit(
    source: Annotated[str, typer.Option(help="Where the tasks come from: bfcl or scripted.")] = "bfcl",
    count: Annotated[int | None, typer.Option(help="Training tasks of a scripted source.")] = None,
    as_json: Annotated[bool, flag("--json", help="One JSON object a line.")] = False,
) -> None:
    """List ground truth that no policy could produce: arguments that nothing it can see leads to.

    Example: `rods tasks audit --source scripted --count 50`
    """
    from dataclasses import asdict

    from rods.config import TasksConfig
    from rods.simulation.exposure import expose
    from rods.tasks import load
    from rods.tasks.audit import audit as judge

    loaded = load(
        TasksConfig(source=source, train_count=count, heldout_count=None if source == "bfcl" else 0)
    )
    tasks, findings = (*loaded.train, *loaded.heldout), []
    for task in tasks:
        shown = expose(task)
        findings += judge(task, shown.results, shown.states, shown.tools)
    for item in findings:
        line = f"{item.task} turn {item.turn + 1} {item.function}: {item.reason}"
        typer.echo(json.dumps(asdict(item), ensure_ascii=False) if as_json else line)
    affected = len({item.task for item in findings})
    typer.echo(f"{len(findings)} arguments without a source in {affected} of {len(tasks)} tasks", err=True)
