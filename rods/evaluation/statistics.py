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
    """Wilson's score interval of a success rate.

    E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22, 209-212, 1927.

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


def paired_score(both: int, only_ours: int, only_theirs: int, neither: int) -> Interval:
    """95% interval of the difference of two success rates on the same tasks, from their Wilson intervals.

    Unlike the bootstrap it has a width where the two systems agree on every task. R. G. Newcombe, Improved confidence
    intervals for the difference between binomial proportions based on paired data, Statistics in Medicine 17,
    2635-2650, 1998, method 10.

    Args:
        both, only_ours, only_theirs, neither: tasks by who solves them.

    Raises:
        StatisticsError: a negative count, or no task at all.
    """
    count = both + only_ours + only_theirs + neither
    if min(both, only_ours, only_theirs, neither) < 0 or count < 1:
        raise StatisticsError(
            f"{both}, {only_ours}, {only_theirs}, {neither}: expected counts of tasks, one task at least"
        )
    ours, theirs = both + only_ours, both + only_theirs
    (high_1, low_1), (high_2, low_2) = (_distances(wins, count) for wins in (ours, theirs))
    covariance = float(both * neither - only_ours * only_theirs)
    if covariance > 0:
        covariance = max(0.0, covariance - count / 2)
    spread = ours * (count - ours) * theirs * (count - theirs)
    phi = covariance / sqrt(spread) if spread else 0.0
    difference = (only_ours - only_theirs) / count
    return Interval(
        difference - sqrt(low_1**2 - 2 * phi * low_1 * high_2 + high_2**2),
        difference + sqrt(high_1**2 - 2 * phi * high_1 * low_2 + low_2**2),
    )


def _distances(successes: int, count: int) -> tuple[float, float]:
    """From the rate to the upper and to the lower end of its Wilson interval."""
    found, rate = wilson(successes, count), successes / count
    return found.high - rate, rate - found.low


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
