"""`rods synthesize`: a static dataset."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from rods.commands.common import UsageError


def synthesize(
    count: Annotated[int, typer.Option(min=1, help="Variants wanted.")],
    out: Annotated[Path, typer.Option(help="The dataset's folder; one begun before is gone on with.")],
    tasks: Annotated[str, typer.Option(help="bfcl, scripted, a dataset's folder or a JSONL file.")] = "bfcl",
    types: Annotated[str, typer.Option(help="Of the seeds: base,miss_func,miss_param,long_context.")] = "",
    max_requests: Annotated[
        int | None, typer.Option(min=1, help="Give up after so many. Default: 20 a variant.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="As for launch.py: synthesis=paper …")
    ] = None,
) -> None:
    """Make a static dataset with the synthesis pipeline; killed at any time, the same command goes on.

    Examples:

    - `rods synthesize --tasks scripted --count 200 --out data/small`
    - `rods synthesize --tasks bfcl --count 17000 --out data/offline17k synthesis=paper`
    """
    from launchers.terminal import launch_line
    from rods.roles import offline
    from rods.tasks.model import TaskType
    from rods.watch.counting import Counting

    names = [name for name in types.split(",") if name]
    unknown = sorted(set(names) - {kind.value for kind in TaskType})
    if unknown:
        raise UsageError(f"--types: no such type {', '.join(unknown)}; there are {', '.join(TaskType)}")
    if tasks not in offline.SOURCES and not Path(tasks).exists():
        raise UsageError(
            f"--tasks {tasks}: expected {', '.join(offline.SOURCES)}, a dataset's folder or a JSONL file; there is no "
            "such file"
        )
    wanted = tuple(TaskType(name) for name in names)
    order = offline.Order(tasks, count, out, wanted, max_requests or 20 * count, tuple(overrides or ()))
    try:
        manifest = offline.make(order, Counting(sys.stderr).tell)
    except KeyboardInterrupt:
        typer.echo(f"stopped; what is finished is kept in {out}, the same command goes on", err=True)
        raise typer.Exit(130) from None
    typer.echo(json.dumps(manifest["figures"], indent=1))
    typed = ["+experiment=NAME", "tasks=file", f"tasks.path={out.absolute()}", "synthesis.enabled=false"]
    typer.echo(f"dataset:   {out}\nlook:      rods variants {out}\ntrain:     {launch_line(typed)}", err=True)
    if not manifest["complete"]:
        accepted, requests = manifest["figures"]["accepted"], manifest["figures"]["requests"]
        typer.echo(
            f"{accepted} of {count} variants after {requests} requests; see {out}/rejected.jsonl, or raise "
            "--max-requests",
            err=True,
        )
        raise typer.Exit(1)
