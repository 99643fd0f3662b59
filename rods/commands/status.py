"""`rods status`: what a run is doing."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated

import typer

from rods.commands.common import DAMAGED, LATEST, POLL_S, RunArgument, find_run, flag
from rods.errors import RodsError

if TYPE_CHECKING:
    from launchers.cost import Cost
    from rods.exchange.rundir import RunDir

_SPENT_EVERY_S = 30.0


def status(
    run: RunArgument = LATEST,
    as_json: Annotated[bool, flag("--json", help="Print the state as JSON.")] = False,
    watch: Annotated[bool, flag("--watch", help="Keep looking until the run ends.")] = False,
) -> None:
    """What a run is doing: jobs, attempts, step, reward, zones, queues, pace, evaluations, GPU-hours.

    Exit status 2 when a part of the run is damaged; the rest is shown all the same.

    Examples:

    - `rods status`
    - `rods status runs/NAME --watch`
    - `rods status NAME --json`
    """
    from rich.console import Console

    from rods.exchange.rundir import RunDir
    from rods.watch.progress import view
    from rods.watch.render import panel
    from rods.watch.state import read_state

    directory, console = RunDir.open(find_run(run)), Console()
    spending = _Spending(directory)
    state = read_state(directory)
    if as_json:
        cost = spending()
        typer.echo(json.dumps(state.to_json() | {"cost": cost.to_json() if cost else None}, indent=1))
    elif not watch:
        console.print(panel(state, spending(), console.width))
    else:
        with view(directory, console, spending) as shown:
            while (state := read_state(directory)).goes_on:
                shown.tick()
                time.sleep(POLL_S)
        typer.echo(state.sentence)
    if state.troubles:
        raise typer.Exit(DAMAGED)


class _Spending:
    """What the run cost, read anew now and then; None where it cannot be read."""

    def __init__(self, run: RunDir) -> None:
        self._run, self._due = run, 0.0
        self._cost: Cost | None = None

    def __call__(self) -> Cost | None:
        from rods.watch.spending import read

        if time.monotonic() >= self._due:
            self._due = time.monotonic() + _SPENT_EVERY_S
            try:
                self._cost = read(self._run)
            except (RodsError, OSError, KeyError, TypeError, ValueError):
                self._cost = None  # what is damaged is told with the state
        return self._cost
