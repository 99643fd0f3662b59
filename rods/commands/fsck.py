"""`rods fsck`: a run directory against its journal."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from rods.commands.common import LATEST, RunArgument, find_run, flag


def fsck(
    run: RunArgument = LATEST,
    repair: Annotated[bool, flag("--repair", help="Mend what is safe; nothing is deleted.")] = False,
    as_json: Annotated[bool, flag("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Check a run directory against its journal; exit 1 when something is not right.

    Examples:

    - `rods fsck`
    - `rods fsck NAME --json`
    """
    from rods.exchange.rundir import RunDir
    from rods.fsck.check import fsck as check
    from rods.fsck.show import lines

    report = check(RunDir.open(find_run(run)), repair=repair)
    typer.echo(json.dumps(report.to_json(), indent=1) if as_json else "\n".join(lines(report)))
    raise typer.Exit(0 if report.sound else 1)
