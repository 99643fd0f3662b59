"""The list of variants on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rods.variants.collect import LEFT_OUT, Item

_REASON_CHARS = 80
_WIDE = 200  # off a terminal nothing is cut to a width that nobody has


def show(items: Sequence[Item]) -> None:
    """Print one row an item and a line that counts them. Text of the run is shown as it is, never as markup."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDE)
    table = Table(box=None, header_style="bold")
    for name in ("variant", "made of", "type", "kind", "Φ distance", "attempts", "status", "reason"):
        table.add_column(name, justify="right" if name in ("Φ distance", "attempts") else "left")
    for item in items:
        table.add_row(*(Text(cell) for cell in _cells(item)))
    console.print(table)
    rejected = sum(item.rejected for item in items)
    left_out = sum(item.status == LEFT_OUT for item in items)
    rest = f", {left_out} left out" if left_out else ""
    accepted = len(items) - rejected - left_out
    console.print(f"{accepted} accepted, {rejected} rejected{rest}", highlight=False)


def _cells(item: Item) -> tuple[str, ...]:
    reason = item.reason if len(item.reason) <= _REASON_CHARS else f"{item.reason[: _REASON_CHARS - 1]}…"
    return (
        item.id,
        item.parent,
        item.type,
        item.kind,
        "–" if item.distance is None else f"{item.distance:.3f}",
        str(item.attempts),
        item.status,
        " ".join(reason.split()),
    )
