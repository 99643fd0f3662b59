"""How a total of training steps is shown that may still change."""

from __future__ import annotations


def total_text(step: int | None, total: int | None, estimated: bool) -> str:
    """The total, "~12" where what happens until then decides; "" where it is not known.

    Args:
        step: the last one done; a total that is reached stands, whatever it was.
    """
    if not total:
        return ""
    return f"~{total}" if estimated and total != step else str(total)
