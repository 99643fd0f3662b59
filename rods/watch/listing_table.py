"""The list of runs as a table for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from rods.watch.listing import Line
from rods.watch.render import STYLES, duration, hours

_WIDE = 100  # columns; below, what can be asked of `rods status` is left out


def table(lines: Sequence[Line], width: int) -> Table:
    """The lines as a table that fits `width` columns; long names are folded, never cut."""
    wide = width >= _WIDE
    shown = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    shown.add_column("run", overflow="fold", min_width=20)
    names = ["state", "try", "step", "reward", "age", *(["jobs", "GPU-h"] if wide else ["GPU-h"])]
    for name in names:
        shown.add_column(
            name, no_wrap=name != "jobs", justify="right" if name in ("try", "GPU-h") else "left"
        )
    for line in lines:
        shown.add_row(*_cells(line, wide))
    return shown


def _cells(line: Line, wide: bool) -> list[Text | str]:
    step = "–" if line.step is None else f"{line.step}/{line.steps_total or '?'}"
    reward = "–" if line.reward is None else f"{line.reward:.3f}"
    spent = "–" if line.gpu_hours is None else hours(line.gpu_hours)
    jobs = [" ".join(line.jobs) or "–"] if wide else []
    state = Text(line.status, style=STYLES.get(line.status, "white"))
    return [line.name, state, str(line.attempt), step, reward, _age(line.age_s), *jobs, spent]


def _age(seconds: float | None) -> str:
    """Like `duration`, in days from two on."""
    if seconds is not None and seconds >= 2 * 86400:
        return f"{seconds / 86400:.0f}d"
    return duration(seconds)
