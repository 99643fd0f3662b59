"""Intervals and paired tests over seeds, against tabled and hand-computed figures."""

import pytest

from analysis.seeds import NoSeedsError, paired, quantile, sign_flips, summary, two_sided


@pytest.mark.parametrize(("freedom", "t"), [(1, 12.7062), (2, 4.30265), (9, 2.26216), (100, 1.98397)])
def test_students_quantiles_are_those_of_the_tables(freedom, t):
    assert quantile(freedom) == pytest.approx(t, abs=1e-4)
    assert two_sided(t, freedom) == pytest.approx(0.05, abs=1e-5)
    assert two_sided(-t, freedom) == two_sided(t, freedom)


def test_mean_and_interval():
    found = summary([1.0, 2.0, 3.0])
    assert (found.mean, found.count) == (2.0, 3)
    assert found.half == pytest.approx(4.30265 / 3**0.5, abs=1e-4)


def test_a_single_run_has_no_interval():
    assert summary([0.5]).half is None


def test_no_run_is_an_error():
    with pytest.raises(NoSeedsError, match="at least one run"):
        summary([])


def test_only_common_seeds_are_paired():
    found = paired({1: 0.5, 2: 0.7, 3: 0.9, 9: 0.0}, {1: 0.4, 2: 0.5, 3: 0.6, 8: 1.0})
    assert found.count == 3
    assert found.mean == pytest.approx(0.2)
    # differences 0.1, 0.2, 0.3: t = 0.2 / (0.1 / √3) = 3.4641, p = 0.0742 with two degrees of freedom
    assert found.p_student == pytest.approx(0.0742, abs=1e-4)
    assert found.p_flips == 0.25


def test_without_common_seeds_there_is_no_comparison():
    assert paired({1: 0.5}, {2: 0.5}) is None


def test_equal_differences_leave_no_students_test():
    found = paired({1: 1.0, 2: 1.0}, {1: 0.5, 2: 0.5})
    assert (found.p_student, found.half) == (None, 0.0)
    assert found.p_flips == 0.5


def test_sign_flips_count_what_is_as_far_from_zero():
    assert sign_flips([0.1, 0.2, -0.3]) == 1.0
    assert sign_flips([1.0] * 10) == 2 / 2**10
    assert sign_flips([0.1]) is None
    assert sign_flips([0.1] * 17) is None
