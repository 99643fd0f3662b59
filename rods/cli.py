"""The `rods` command: look at runs from any shell, and act on them.

Its commands are in `rods/commands`, one file each. Heavy imports wait until a command needs them, so that
`rods status` answers at once.
"""

from __future__ import annotations

import os
import sys
from importlib import metadata
from typing import Annotated

import typer
import yaml

from rods import width
from rods.commands import (
    benchmark,
    cancel,
    clean,
    cost,
    doctor,
    estimate,
    evaluate,
    events,
    fsck,
    logs,
    ls,
    report,
    resume,
    scale,
    status,
    synthesize,
    tasks,
    variants,
    wandb,
    warmstart,
)
from rods.errors import RodsError

_LOOK, _ACT, _RESULTS, _BESIDE = "Look at runs", "Act on runs", "Results", "Before a run, and without one"
app = typer.Typer(
    name="rods",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # else the line breaks of the docstrings are kept
)
tasks_app = typer.Typer(name="tasks", help="Look at seed tasks.", no_args_is_help=True)
for _panel, _commands in {
    _LOOK: (ls.ls, status.status, logs.logs, events.events, cost.cost, fsck.fsck),
    _ACT: (resume.resume, cancel.cancel, scale.scale, clean.clean),
    _RESULTS: (
        report.report,
        variants.variants,
        evaluate.evaluate,
        benchmark.benchmark,
        wandb.wandb_sync,
        wandb.wandb_report,
    ),
    _BESIDE: (doctor.doctor, estimate.estimate, synthesize.synthesize),
}.items():
    for _command in _commands:
        app.command(rich_help_panel=_panel)(_command)
app.command(rich_help_panel=_BESIDE, context_settings=warmstart.CONTEXT)(warmstart.warmstart)
tasks_app.command()(tasks.audit)
app.add_typer(tasks_app, rich_help_panel=_BESIDE)


def main() -> None:
    """The console script; what is wrong with a run or its files is a message, not a traceback."""
    width.settle()
    try:
        app()
    except BrokenPipeError:
        # Its reader (head, less) has seen enough; what is still buffered would fail once more when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (RodsError, OSError, yaml.YAMLError) as error:
        print(f"rods: {error}", file=sys.stderr)
        sys.exit(2)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rods {metadata.version('rods-harness')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, metavar="", help="Print the version."
        ),
    ] = False,
) -> None:
    """Look at RODS runs, and act on them. `python launch.py +experiment=rods_tiny` starts one."""
