"""The moving picture of a run: a live panel on a terminal; elsewhere a line every few seconds and the panel last."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from rich.console import Console
from rich.live import Live

from launchers.cost import Cost
from rods.errors import RodsError
from rods.exchange.rundir import RunDir
from rods.watch.render import line, panel
from rods.watch.state import read_state

LINE_EVERY_S = 5.0
Spending = Callable[[], Cost | None]


class View(Protocol):
    """Something that shows a run when asked to."""

    def tick(self) -> None:
        """Look at the run and show what changed."""


class LiveView:
    """A panel that is drawn over itself."""

    def __init__(self, run: RunDir, live: Live, spending: Spending) -> None:
        self._run, self._live, self._spending = run, live, spending

    def tick(self) -> None:
        """Redraw the panel."""
        width = self._live.console.width
        self._live.update(panel(read_state(self._run), self._spending(), width), refresh=True)


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


class Forgiving:
    """A view whose failure is said once and ends the view, never the run that it shows."""

    def __init__(self, tick: Callable[[], None]) -> None:
        self._tick: Callable[[], None] | None = tick

    def tick(self) -> None:
        """`tick` until it fails."""
        if self._tick is None:
            return
        try:
            self._tick()
        except (OSError, RodsError, ValueError, KeyError, TypeError, AttributeError) as error:
            self._tick = None
            say(
                f"the progress view failed and was dropped; the run goes on ({type(error).__name__}: {error})"
            )


class LastingConsole(Console):
    """A console whose reader may go away (`| head`): rich would end the process, and with it the run."""

    def on_broken_pipe(self) -> None:
        """Write to nowhere from now on, so that Python's last flush does not fail either."""
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        say("the output was closed; the run goes on")


def say(sentence: str) -> None:
    """One line on the error output, if anybody still reads it."""
    with suppress(OSError, ValueError):
        print(f"[rods] {sentence}", file=sys.stderr, flush=True)


@contextmanager
def view(run: RunDir, console: Console, spending: Spending = lambda: None) -> Iterator[View]:
    """The view that suits where the console writes to.

    Args:
        spending: what the run cost so far, for the panel; None leaves it out.
    """
    if not console.is_terminal:
        yield LineView(run, console)
        Forgiving(lambda: console.print(panel(read_state(run), spending(), console.width))).tick()
        return
    # Roles write to files, so nothing else prints over the panel; the last picture stays on the screen.
    with Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        shown = LiveView(run, live, spending)
        yield shown
        Forgiving(shown.tick).tick()
