"""`rods wandb-sync` and `rods wandb-report`: bring runs to Weights & Biases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rods.commands.common import LATEST, RunArgument, find_run, flag, reading


def wandb_sync(
    run: RunArgument = LATEST,
    upload: Annotated[
        bool, flag(help="Send it; without, only the copy in the run directory is made.")
    ] = True,
) -> None:
    """Copy what no role could track (synthesis metrics, tables, artifacts); upload all that was tracked offline.

    For clusters whose nodes have no network: run it on a login node, as often as you like. Only what is new is sent.
    What a live role is still writing waits until that role has ended.

    Examples:

    - `rods wandb-sync latest`
    - `rods wandb-sync NAME --no-upload`
    """
    from launchers import snapshot
    from rods import tracking_copy
    from rods.exchange import permissions
    from rods.exchange.rundir import RunDir

    directory = RunDir.open(find_run(run))
    permissions.adopt_from(directory.path)
    with reading(directory.path):
        copied = tracking_copy.catch_up(directory, snapshot.load_config(directory))
    typer.echo(f"copied {copied.lines} lines of synthesis metrics")
    if copied.left:
        typer.echo(f"live, so left alone until they end: {', '.join(copied.left)}")
    if upload:
        typer.echo(f"uploaded {tracking_copy.upload(directory, copied.left)} W&B runs")
    else:
        typer.echo(f"not uploaded yet: {len(tracking_copy.offline_runs(directory, copied.left))} W&B runs")


def wandb_report(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Run directories, or names under ./runs.")
    ],
    title: Annotated[str, typer.Option(help="Of the report.")] = "RODS",
    dry_run: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the report's specification there, send nothing."),
    ] = None,
) -> None:
    """Build a report in W&B from panels of these runs: systems as run sets, seeds averaged.

    Project and entity are those of the first run's configuration.

    Examples:

    - `rods wandb-report A1 A2 B1 B2`
    - `rods wandb-report A1 A2 --dry-run report.json`
    """
    from analysis import wandb_report as reports
    from analysis.load import load
    from analysis.systems import group
    from rods.exchange.atomic import write_text

    data = [load(find_run(run)) for run in runs]
    tracking = data[0].config["tracking"]
    # A dry run asks W&B nothing, so it cannot learn the user's default entity.
    entity = tracking["entity"] or ("entity" if dry_run else "")
    report = reports.build(group(data), tracking["project"], entity, title)
    if dry_run:
        write_text(dry_run, reports.spec(report))
        typer.echo(str(dry_run))
        return
    report.save()
    typer.echo(report.url)
