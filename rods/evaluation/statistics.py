"""Intervals and tests for scores of the same tasks. Pure functions of numbers.

The tasks are drawn by type, so the paired bootstrap resamples within types; a success rate's own interval is
Wilson's, which holds near 0 and 1 where the paper's smaller models are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb, sqrt
from statistics import NormalDist

import numpy as np

from rods.errors import RodsError

CONFIDENCE = 0.95
RESAMPLES = 10_000


class StatisticsError(RodsError):
    """Numbers that no interval can be computed of."""


@dataclass(frozen=True)
class Interval:
    """A two-sided confidence interval."""

    low: float
    high: float


def wilson(successes: int, count: int, confidence: float = CONFIDENCE) -> Interval:
    """Wilson's score interval of a success rate (E. B. Wilson, JASA 22, 1927).

    Raises:
        StatisticsError: not 0 ≤ successes ≤ count with count ≥ 1.
    """
    if not 0 <= successes <= count or count < 1:
        raise StatisticsError(
            f"{successes} of {count}: expected 0 ≤ successes ≤ count, and a count of at least 1"
        )
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate, spread = successes / count, z * z / count
    centre = (rate + spread / 2) / (1 + spread)
    half = z * sqrt(rate * (1 - rate) / count + spread / (4 * count)) / (1 + spread)
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def paired_bootstrap(
    differences: Mapping[str, Sequence[float]],
    seed: int = 0,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Interval:
    """Percentile interval of the mean difference between two systems on the same tasks.

    Args:
        differences: per stratum (task type), one number per task: this system's score less the other's.
        seed: of the resampling.
        resamples: how many times each stratum is drawn anew, with replacement, at its own size.

    Raises:
        StatisticsError: no task at all.
    """
    strata = [np.asarray(values, dtype=float) for _, values in sorted(differences.items()) if len(values)]
    if not strata:
        raise StatisticsError("paired bootstrap: expected at least one task that both systems were scored on")
    rng = np.random.default_rng(seed)
    totals = np.zeros(resamples)
    for values in strata:
        totals += values[rng.integers(len(values), size=(resamples, len(values)))].sum(axis=1)
    means = totals / sum(map(len, strata))
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, (tail, 1 - tail))
    return Interval(float(low), float(high))


def mcnemar(only_ours: int, only_theirs: int) -> float:
    """Two-sided exact McNemar test: the probability of so unequal discordant counts, if both systems are equal.

    Args:
        only_ours: tasks that this system solves and the other does not.
        only_theirs: the reverse.

    Raises:
        StatisticsError: a negative count.
    """
    if min(only_ours, only_theirs) < 0:
        raise StatisticsError(f"McNemar of {only_ours} and {only_theirs}: expected counts of tasks")
    count = only_ours + only_theirs
    tail = sum(comb(count, few) for few in range(min(only_ours, only_theirs) + 1))
    return min(1.0, 2 * tail / 2**count)
