"""`rods status`: what a run is doing."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from rods.commands.common import LATEST, POLL_S, RunArgument, find_run, reading


def status(
    run: RunArgument = LATEST,
    as_json: Annotated[bool, typer.Option("--json", help="Print the state as JSON.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Keep looking until the run ends.")] = False,
) -> None:
    """What a run is doing: epoch, step, reward, zones, pool, queues, roles."""
    from rich.console import Console

    from rods.exchange.rundir import RunDir
    from rods.watch.progress import view
    from rods.watch.render import panel
    from rods.watch.state import read_state

    directory, console = RunDir.open(find_run(run)), Console()
    with reading(directory.path):
        if as_json:
            typer.echo(json.dumps(read_state(directory).to_json(), indent=1))
        elif not watch:
            console.print(panel(read_state(directory)))
        else:
            with view(directory, console) as shown:
                while read_state(directory).status in ("waiting", "running"):
                    shown.tick()
                    time.sleep(POLL_S)
            typer.echo(read_state(directory).sentence)
