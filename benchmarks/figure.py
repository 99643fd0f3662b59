"""A figure with its peer: what every side-by-side benchmark prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

COSTS = ("s", "ms", "µs", "MiB")  # units of which less is better


@dataclass(frozen=True)
class Figure:
    """One figure; `ratio` above 1 means that ours is better.

    Attributes:
        ours: median over the repeats.
        peer: likewise.
        ratio: of the medians.
        ours_spread: least and greatest repeat.
        peer_spread: likewise.
    """

    ours: float
    peer: float
    peer_name: str
    unit: str
    ratio: float
    ours_spread: tuple[float, float]
    peer_spread: tuple[float, float]


def compare(
    ours: Sequence[float], peer: Sequence[float], peer_name: str, unit: str, digits: int = 2
) -> Figure:
    """The figure of repeats on either side; in `COSTS` less is better. Nothing spent counts as ratio 0."""
    a, b = median(ours), median(peer)
    better, other = (b, a) if unit in COSTS else (a, b)
    return Figure(
        round(a, digits),
        round(b, digits),
        peer_name,
        unit,
        round(better / other, 2) if other > 0 else 0.0,
        (round(min(ours), digits), round(max(ours), digits)),
        (round(min(peer), digits), round(max(peer), digits)),
    )
