"""`rods report`: build a run's report again, or put several runs side by side."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rods.commands.common import LATEST, UsageError, find_run, reading

if TYPE_CHECKING:
    from rods.exchange.rundir import RunDir

_SIDE_BY_SIDE = Path("study")


def report(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Run directories, names under ./runs, or 'latest' (the default). The shell expands runs/*.",
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RUN",
            help="Compare with this run, or with all that a quoted pattern of paths matches; repeatable.",
        ),
    ] = None,
    benchmarks: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="rods_SUITE.json of rods benchmark, or a folder of them; may be repeated. Those in a run's "
            "evaluations/ are found by themselves.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the study; default: the run's report/, ./study for several."),
    ] = None,
) -> None:
    """Build the report of one run again, and the study and trajectory browser of one or several.

    Runs that differ only by their seed are one system; ablations are compared with the whole system among the runs.
    Prints where the pages are; of several runs also what must not be taken for an effect: few seeds, unfinished runs,
    different models, different tasks.

    Examples:

    - `rods report latest`
    - `rods report A1 A2 A3 --against B1 --against B2 --against B3`
    - `rods report runs/A-* --against 'runs/B-*'`
    - `rods report A1 A2 A3 --benchmarks tau2-bench --benchmarks ACEBench`
    """
    from analysis import report as single
    from analysis import study
    from rods.exchange import permissions
    from rods.exchange.ended import failure
    from rods.exchange.rundir import RunDir
    from rods.watch import spending

    ours = [RunDir.open(find_run(run)) for run in runs or [LATEST]]
    references = [RunDir.open(path) for run in against or () for path in _references(run)]
    if both := {run.path for run in ours} & {run.path for run in references}:
        raise UsageError(f"--against: expected other runs than those reported on, found {min(both)} in both")
    alone = len(ours) == 1
    if alone:
        permissions.adopt_from(ours[0].path)
    folder = out or (ours[0].report if alone and not references else _SIDE_BY_SIDE)
    with reading(ours[0].path):
        accounts = [account.to_json() for account in spending.read_many([*ours, *references])]
        made = study.build(
            folder,
            [run.path for run in ours],
            [run.path for run in references],
            accounts,
            benchmarks or (),
        )
        pages = []
        if alone:
            pages.append(single.build(ours[0].path).html)
        if made.html.parent != ours[0].report:
            _link([*ours, *references], made.html)
    for page in (*pages, made.html, made.trajectories):
        typer.echo(str(page))
    typer.echo(f"and {len(made.plots)} figures of the study beside it, as PNG and SVG")
    for run in ours:
        if why := failure(run):
            typer.echo(f"warning: {run.path.name} failed: {why}", err=True)
    for warning in () if alone and not references else made.warnings:
        typer.echo(f"warning: {warning}", err=True)


def _references(run: str) -> list[Path]:
    """The runs that one --against means. A shell would give the option only the first match of a pattern."""
    if not glob.has_magic(run):
        return [find_run(run)]
    if found := sorted(glob.glob(run)):
        return [Path(path) for path in found]
    raise UsageError(f"--against {run}: expected paths of runs, found none that match; see rods ls")


def _link(runs: Sequence[RunDir], page: Path) -> None:
    """Let the runs' own reports lead to `page`; those that this user may not write stay as they are."""
    from analysis import report as single
    from rods.exchange import permissions

    for run in runs:
        if os.access(run.path, os.W_OK):
            permissions.adopt_from(run.path)
            single.link(run.path, page)
