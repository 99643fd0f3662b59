"""The list of runs as a table for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from rods.watch.listing import Line
from rods.watch.render import STYLES, duration, hours
from rods.watch.steps import total_text
from rods.width import fitting

_GAP = 2  # blanks between columns
_RUN = "run"
_NAMES = (_RUN, "state", "try", "step", "reward", "age", "jobs", "GPU-h")
# What `rods status` tells too makes room for a run's whole name, which other commands take; this first.
_GIVEN_UP = ("jobs", "GPU-h", "age", "try", "reward", "step")
_RIGHT = ("try", "GPU-h")
_JOBS_WIDTH = 12  # a chain has many, and theirs are folded


def table(lines: Sequence[Line], width: int) -> Table:
    """The lines as a table that fits `width` columns: names are whole as long as giving up others makes room."""
    rows = [_cells(line) for line in lines]
    shown = Table(box=None, padding=(0, _GAP, 0, 0), header_style="dim")
    names = fitting({name: _width(rows, name) + _GAP for name in _NAMES}, _GIVEN_UP, width)
    room = width - sum(_width(rows, name) + _GAP for name in names[1:]) - _GAP
    shown.add_column(_RUN, overflow="fold", min_width=max(1, min(_width(rows, _RUN), room)))
    for name in names[1:]:
        shown.add_column(name, no_wrap=name != "jobs", justify="right" if name in _RIGHT else "left")
    for row in rows:
        shown.add_row(*(row[name] for name in names))
    return shown


def _width(rows: Sequence[dict[str, Text]], name: str) -> int:
    widest = max([len(name), *(row[name].cell_len for row in rows)])
    return min(widest, _JOBS_WIDTH) if name == "jobs" else widest


def _cells(line: Line) -> dict[str, Text]:
    total = total_text(line.step, line.steps_total, line.steps_estimated)
    cells = {
        _RUN: line.name,
        "try": str(line.attempt),
        "step": "–" if line.step is None else f"{line.step}/{total or '?'}",
        "reward": "–" if line.reward is None else f"{line.reward:.3f}",
        "age": _age(line.age_s),
        "jobs": " ".join(line.jobs) or "–",
        "GPU-h": "–" if line.gpu_hours is None else hours(line.gpu_hours),
    }
    state = Text(line.status, style=STYLES.get(line.status, "white"))
    return {name: Text(text) for name, text in cells.items()} | {"state": state}


def _age(seconds: float | None) -> str:
    """Like `duration`, in days from two on."""
    if seconds is not None and seconds >= 2 * 86400:
        return f"{seconds / 86400:.0f}d"
    return duration(seconds)
