"""The moving picture of a run: a live panel on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.live import Live

from rods.exchange.rundir import RunDir
from rods.watch.render import line, panel
from rods.watch.state import read_state

LINE_EVERY_S = 5.0


class View(Protocol):
    """Something that shows a run when asked to."""

    def tick(self) -> None:
        """Look at the run and show what changed."""


class LiveView:
    """A panel that is drawn over itself."""

    def __init__(self, run: RunDir, live: Live) -> None:
        self._run = run
        self._live = live

    def tick(self) -> None:
        """Redraw the panel."""
        self._live.update(panel(read_state(self._run)), refresh=True)


class LineView:
    """One line every `every_s` seconds, for logs, pipes and nohup."""

    def __init__(self, run: RunDir, console: Console, every_s: float = LINE_EVERY_S) -> None:
        self._run = run
        self._console = console
        self._every_s = every_s
        self._last = float("-inf")

    def tick(self) -> None:
        """Print a line when the time has come."""
        if time.monotonic() - self._last >= self._every_s:
            self._last = time.monotonic()
            self._console.print(line(read_state(self._run)), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def view(run: RunDir, console: Console) -> Iterator[View]:
    """The view that suits where the console writes to."""
    if not console.is_terminal:
        yield LineView(run, console)
        return
    # Roles write to files, so nothing else prints over the panel; the last picture stays on the screen.
    with Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        shown = LiveView(run, live)
        yield shown
        shown.tick()
