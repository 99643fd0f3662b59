"""`rods clean`: remove old runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rods.commands.common import RUNS, flag


def clean(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Only these, by the folder's name.")
    ] = None,
    runs: Annotated[Path, typer.Option("--runs", help="The folder that the runs lie in.")] = RUNS,
    older: Annotated[
        float | None, typer.Option("--older", min=0, help="Not written to for so many days.")
    ] = None,
    unfinished: Annotated[
        bool, flag("--unfinished", help="Also stopped and interrupted runs, which could be resumed.")
    ] = False,
    yes: Annotated[bool, flag("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[bool, flag("--dry-run", help="Only say what would be removed.")] = False,
    as_json: Annotated[bool, flag("--json", help="Print what was (would be) removed as JSON.")] = False,
) -> None:
    """Remove finished and failed runs: those named, or all that were not written to for --older days.

    A run that is at work or waits is never removed, nor anything outside of the runs folder; links and mount points
    are refused. It asks before it removes. Exit status 1 when one that was named is kept.

    Examples:

    - `rods clean --older 30 --dry-run`
    - `rods clean NAME`
    - `rods clean --older 7 --unfinished --yes`
    """
    from rods.exchange.usage import human
    from rods.watch import removal

    plan = removal.plan(runs, names or [], older, unfinished)
    if not as_json:
        for kept in plan.kept:
            typer.echo(f"kept    {kept.name}: {kept.reason}")
        for name in plan.leftovers:
            typer.echo(f"remove  {name}: an earlier removal was killed in its middle")
        for found in plan.removable:
            typer.echo(
                f"remove  {found.name}: {found.status}, {human(found.size)}, {found.idle_days:.1f} days idle"
            )
    wanted = bool(plan.removable or plan.leftovers) and not dry_run
    if wanted and plan.removable and not yes:
        total = human(sum(found.size for found in plan.removable))
        wanted = typer.confirm(f"remove {len(plan.removable)} run(s), {total}, for good?", err=as_json)
    removed = removal.remove(plan) if wanted else []
    if as_json:
        typer.echo(json.dumps(plan.to_json() | {"removed": removed, "dry_run": dry_run}, indent=1))
    else:
        typer.echo(f"removed {len(removed)} run(s)" if removed else "nothing was removed")
    if names and plan.kept:
        raise typer.Exit(1)
