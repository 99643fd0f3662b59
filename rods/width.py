"""How wide the terminal is, where what says so does not know."""

from __future__ import annotations

import os


def settle() -> None:
    """Let COLUMNS=0, as some shells export it, be a width that is not known: rich would print nothing."""
    if os.environ.get("COLUMNS", "").isdigit() and int(os.environ["COLUMNS"]) == 0:
        del os.environ["COLUMNS"]
