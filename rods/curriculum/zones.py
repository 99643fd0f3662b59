"""Where a task lies for the current policy, by the mean reward of its latest group (paper: boundary detection)."""

from __future__ import annotations

from enum import StrEnum

from rods.config import BoundaryConfig


class Zone(StrEnum):
    """Where a task lies for the current policy."""

    HARD = "hard"
    BOUNDARY = "boundary"
    MASTERED = "mastered"


def zone(mean: float, config: BoundaryConfig) -> Zone:
    """hard: r̄ < α₋; boundary: α₋ ≤ r̄ ≤ α₊, both borders included; mastered: r̄ > α₊."""
    if mean < config.alpha_low:
        return Zone.HARD
    return Zone.MASTERED if mean > config.alpha_high else Zone.BOUNDARY


def phi(mean: float) -> float:
    """φ(r̄) = 4r̄(1−r̄): 1 at r̄ = ½, 0 at 0 and 1, negative outside [0, 1] (format reward)."""
    return 4 * mean * (1 - mean)
