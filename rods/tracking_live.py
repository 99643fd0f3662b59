"""A daemon's metrics and tables in W&B while it works: read from the run directory by a thread of its own.

The daemon writes its files as if there were no W&B, and waits for it only at its end, for a bounded time. wandb takes
half a second to import; the thread does that too, and nobody where tracking is disabled.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

from rods.config import Config
from rods.errors import RodsError
from rods.exchange.rundir import RunDir

if TYPE_CHECKING:
    from rods.tracking import Tracker
    from rods.tracking_copy import Copy

_DISABLED = "disabled"
_EVERY_S = 5.0
_TABLES_EVERY_S = 600.0  # they are read from the whole journal
_LAST_WORDS_S = 30.0  # a service that cannot be reached does not keep a stopped daemon for longer


@contextmanager
def following(run: RunDir, writer: str, config: Config, every_s: float = _EVERY_S) -> Iterator[None]:
    """Copy what the daemon `writer` writes to its W&B run until the block ends.

    Args:
        every_s: seconds between looks.
    """
    if config.tracking.wandb == _DISABLED:
        yield
        return
    done = Event()
    thread = Thread(target=_follow, args=(run, writer, config, every_s, done), name="wandb", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(_LAST_WORDS_S)
        if thread.is_alive():
            _say(f"not done after {_LAST_WORDS_S:g} s; `rods wandb-sync {run.path}` copies what is missing")


def _follow(run: RunDir, writer: str, config: Config, every_s: float, done: Event) -> None:
    from rods.tracking import Tracker
    from rods.tracking_copy import ROLE, Copy

    try:
        copy = Copy(run, writer)
        with Tracker(run, ROLE, config, writer) as tracker:
            _copy(copy, tracker, every_s, done)
    except (RodsError, OSError) as error:
        _say(f"{error}; synthesis goes on, its metrics are in the run directory")


def _copy(copy: Copy, tracker: Tracker, every_s: float, done: Event) -> None:
    tables_due = time.monotonic() + _TABLES_EVERY_S
    while tracker.active and not done.wait(every_s):
        copy.metrics(tracker)
        if time.monotonic() >= tables_due:
            copy.tables(tracker)
            tables_due = time.monotonic() + _TABLES_EVERY_S
    if tracker.active:
        copy.metrics(tracker)
        copy.tables(tracker)


def _say(text: str) -> None:
    print(f"W&B: {text}", file=sys.stderr)
