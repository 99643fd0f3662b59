"""The list of variants on a terminal."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rods.variants.collect import LEFT_OUT, Item
from rods.width import fitting

_REASON_CHARS = 80
_WIDE = 200  # where nobody says how wide it is: nothing is cut to a width that nobody has
_NAMES = ("variant", "made of", "type", "kind", "Φ distance", "attempts", "status", "reason")
_RIGHT = ("Φ distance", "attempts")
# What makes room for the rest, this first: an id of the scripted world begins with that of its seed and its kind.
_GIVEN_UP = ("made of", "kind", "attempts", "Φ distance", "type")
_FOLDED = {"reason": 24}  # a column that is folded above this width where there is no room
_GAP = 2  # blanks between columns
_Row = dict[str, str]


def show(items: Sequence[Item]) -> None:
    """Print one row an item and a line that counts them. Text of the run is shown as it is, never as markup.

    The table is as wide as the terminal, or as COLUMNS says, at most: columns are left out where they do not fit.
    """
    console = Console()
    if not console.is_terminal and not os.environ.get("COLUMNS"):
        console = Console(width=_WIDE)
    console.print(_table([_cells(item) for item in items], console.width))
    rejected = sum(item.rejected for item in items)
    left_out = sum(item.status == LEFT_OUT for item in items)
    rest = f", {left_out} left out" if left_out else ""
    accepted = len(items) - rejected - left_out
    console.print(f"{accepted} accepted, {rejected} rejected{rest}", highlight=False)


def _table(rows: Sequence[_Row], width: int) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, _GAP, 0, 0))
    names = fitting({name: _width(rows, name) + _GAP for name in _NAMES}, _GIVEN_UP, width)
    for name in names:
        table.add_column(
            name,
            justify="right" if name in _RIGHT else "left",
            no_wrap=name not in (*_FOLDED, "variant"),
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(row[name]) for name in names))
    return table


def _width(rows: Sequence[_Row], name: str) -> int:
    widest = max([len(name), *(Text(row[name]).cell_len for row in rows)])
    return min(widest, _FOLDED.get(name, widest))


def _cells(item: Item) -> _Row:
    reason = item.reason if len(item.reason) <= _REASON_CHARS else f"{item.reason[: _REASON_CHARS - 1]}…"
    cells = (
        item.id,
        item.parent,
        item.type,
        item.kind,
        "–" if item.distance is None else f"{item.distance:.3f}",
        str(item.attempts),
        item.status,
        " ".join(reason.split()),
    )
    return dict(zip(_NAMES, cells, strict=True))
