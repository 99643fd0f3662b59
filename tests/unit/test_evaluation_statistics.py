"""Intervals and tests, against numbers computed by hand or printed in textbooks."""

from __future__ import annotations

from fractions import Fraction

import pytest

from rods.evaluation.statistics import StatisticsError, mcnemar, paired_bootstrap, paired_score, wilson


def test_wilson_gives_the_published_example() -> None:
    # Newcombe, Two-sided confidence intervals for the single proportion (Statistics in Medicine 17, 857-872, 1998),
    # table I, method 3: 81 of 263 and 15 of 148.
    assert wilson(81, 263).low == pytest.approx(0.2553, abs=5e-5)
    assert wilson(81, 263).high == pytest.approx(0.3662, abs=5e-5)
    assert wilson(15, 148).low == pytest.approx(0.0624, abs=5e-5)
    assert wilson(15, 148).high == pytest.approx(0.1605, abs=5e-5)


def test_wilson_holds_at_the_ends() -> None:
    # 0 of 20: Newcombe's table gives 0 to 0.1611; and it is symmetric.
    assert wilson(0, 20).low == pytest.approx(0, abs=1e-12)
    assert wilson(0, 20).high == pytest.approx(0.1611, abs=5e-5)
    assert wilson(20, 20).low == pytest.approx(1 - wilson(0, 20).high)
    assert wilson(20, 20).high == pytest.approx(1)


@pytest.mark.parametrize(("successes", "count"), [(1, 0), (0, 0), (-1, 5), (6, 5)])
def test_wilson_refuses_what_is_no_rate(successes: int, count: int) -> None:
    with pytest.raises(StatisticsError, match=f"{successes} of {count}"):
        wilson(successes, count)


def test_mcnemar_is_the_exact_binomial() -> None:
    # 2 · (1 + 10 + 45) / 2^10 for 2 against 8 of 10 discordant tasks.
    assert mcnemar(2, 8) == mcnemar(8, 2) == pytest.approx(float(Fraction(2 * (1 + 10 + 45), 2**10)))
    assert mcnemar(0, 0) == mcnemar(5, 5) == 1
    assert mcnemar(0, 20) == pytest.approx(2 / 2**20)
    with pytest.raises(StatisticsError, match="-1"):
        mcnemar(-1, 3)


def test_the_bootstrap_of_equal_differences_is_a_point() -> None:
    interval = paired_bootstrap({"base": [0.25] * 8, "miss_func": [0.25] * 3})
    assert (interval.low, interval.high) == (0.25, 0.25)


def test_the_bootstrap_agrees_with_the_normal_interval_of_many_tasks() -> None:
    # 100 gained, 50 lost, 250 equal: mean 0.125, s² = (150 - 400·0.125²)/400, so ± 1.96·s/20.
    differences = [1.0] * 100 + [-1.0] * 50 + [0.0] * 250
    half = 1.96 * ((150 - 400 * 0.125**2) / 400) ** 0.5 / 20
    interval = paired_bootstrap({"base": differences})
    assert interval.low == pytest.approx(0.125 - half, abs=0.006)
    assert interval.high == pytest.approx(0.125 + half, abs=0.006)


def test_the_bootstrap_resamples_within_types() -> None:
    # Each type alone never varies, so neither does their mean; resampled together it would.
    interval = paired_bootstrap({"base": [1.0] * 10, "miss_func": [0.0] * 10})
    assert (interval.low, interval.high) == (0.5, 0.5)


def test_the_bootstrap_repeats_and_follows_its_seed() -> None:
    differences = {"base": [1.0, 0.0, -1.0, 0.5, 0.25, 0.125, 0.75]}
    assert paired_bootstrap(differences, seed=3) == paired_bootstrap(differences, seed=3)
    assert paired_bootstrap(differences, seed=3, resamples=50) != paired_bootstrap(
        differences, seed=4, resamples=50
    )


def test_the_bootstrap_of_nothing_is_refused() -> None:
    with pytest.raises(StatisticsError, match="at least one task"):
        paired_bootstrap({"base": []})


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [((36, 12, 2, 0), 0.0569, 0.3404), ((36, 14, 0, 0), 0.1528, 0.4167)],
)
def test_the_paired_interval_gives_published_examples(
    counts: tuple[int, int, int, int], low: float, high: float
) -> None:
    # Newcombe (Statistics in Medicine 17, 2635-2650, 1998), method 10, n = 50.
    found = paired_score(*counts)
    assert (found.low, found.high) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def test_the_paired_interval_is_symmetric_and_has_a_width_where_both_agree() -> None:
    ours, theirs = paired_score(10, 7, 3, 20), paired_score(10, 3, 7, 20)
    assert (ours.low, ours.high) == (pytest.approx(-theirs.high), pytest.approx(-theirs.low))
    same = paired_score(5, 0, 0, 35)
    assert -0.1 < same.low < 0 < same.high < 0.1
    assert paired_score(0, 0, 0, 1).high < 1


@pytest.mark.parametrize("counts", [(0, 0, 0, 0), (-1, 1, 1, 1), (1, 1, 1, -1)])
def test_the_paired_interval_refuses_what_are_no_counts(counts: tuple[int, int, int, int]) -> None:
    with pytest.raises(StatisticsError, match="counts of tasks"):
        paired_score(*counts)
