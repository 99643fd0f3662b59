"""How wide the terminal is, where what says so does not know, and what of a table fits."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence


def settle() -> None:
    """Let COLUMNS=0, as some shells export it, be a width that is not known: rich would print nothing."""
    if os.environ.get("COLUMNS", "").isdigit() and int(os.environ["COLUMNS"]) == 0:
        del os.environ["COLUMNS"]


def fitting(columns: Mapping[str, int], given_up: Sequence[str], room: int) -> list[str]:
    """The columns that stand side by side in `room` characters, in their order.

    Args:
        columns: name → characters, its gap included.
        given_up: those that may be left out, the first one first; the others stay even where they do not fit.
        room: characters.
    """
    names = list(columns)
    for name in given_up:
        if sum(columns[kept] for kept in names) <= room:
            break
        names.remove(name)
    return names
