"""What a few seeds say: intervals over runs, and paired comparisons of two systems. Pure functions of numbers.

Student's t takes the runs' scores for normal, which three runs cannot show; so the exact sign-flip test, which takes
nothing for granted, stands beside it. With n seeds its smallest possible p is 2/2ⁿ: 0.25 for three.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import sqrt
from statistics import fmean, stdev

import mpmath

from rods.errors import RodsError

MIN_SEEDS = 3
_CONFIDENCE = 0.95
_MOST_EXACT = 16  # seeds whose sign flips are all enumerated


class NoSeedsError(RodsError):
    """Numbers of no run at all."""


@dataclass(frozen=True)
class Summary:
    """Scores of one system over its seeds.

    Attributes:
        mean: of the runs.
        half: half of Student's 95% interval of the mean; None for a single run.
        count: runs.
    """

    mean: float
    half: float | None
    count: int


@dataclass(frozen=True)
class Paired:
    """One system less another over the seeds that both have.

    Attributes:
        mean, half: as in `Summary`, of the differences.
        count: seeds in common.
        p_student: two-sided, paired t-test; None below two seeds or without spread.
        p_flips: two-sided, exact sign-flip test; None below two seeds or above 16.
    """

    mean: float
    half: float | None
    count: int
    p_student: float | None
    p_flips: float | None


def summary(values: Sequence[float]) -> Summary:
    """Mean and interval of at least one score.

    Raises:
        NoSeedsError: no score.
    """
    if not values:
        raise NoSeedsError("expected the scores of at least one run, found none")
    return Summary(fmean(values), _half(values), len(values))


def paired(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Paired | None:
    """The comparison over common seeds; None where there is no such seed.

    Args:
        ours, theirs: score by seed.
    """
    common = sorted(ours.keys() & theirs.keys())
    if not common:
        return None
    differences = [ours[seed] - theirs[seed] for seed in common]
    return Paired(
        fmean(differences), _half(differences), len(common), _student(differences), sign_flips(differences)
    )


def sign_flips(differences: Sequence[float]) -> float | None:
    """Share of the 2ⁿ ways to flip signs that give a mean as far from 0 as this one, or farther."""
    if not 2 <= len(differences) <= _MOST_EXACT:
        return None
    seen = abs(sum(differences)) * (1 - 1e-12)  # equal sums may differ in their last digit
    sums = [sum(map(_times, differences, signs)) for signs in product((1, -1), repeat=len(differences))]
    return sum(abs(each) >= seen for each in sums) / len(sums)


def two_sided(t: float, freedom: int) -> float:
    """P(|T| ≥ |t|) of Student's distribution with `freedom` degrees of freedom."""
    share = freedom / (freedom + t * t)
    return float(mpmath.betainc(freedom / 2, 0.5, 0, share, regularized=True))


def quantile(freedom: int, confidence: float = _CONFIDENCE) -> float:
    """t with P(|T| ≤ t) = `confidence`."""
    low, high = 0.0, 1e4
    while high - low > 1e-9 * max(1.0, high):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, freedom) > 1 - confidence else (low, middle)
    return high


def _half(values: Sequence[float]) -> float | None:
    count = len(values)
    return None if count < 2 else quantile(count - 1) * stdev(values) / sqrt(count)


def _student(differences: Sequence[float]) -> float | None:
    count = len(differences)
    if count < 2 or not (spread := stdev(differences)):
        return None
    return two_sided(fmean(differences) / (spread / sqrt(count)), count - 1)


def _times(value: float, sign: int) -> float:
    return value * sign
