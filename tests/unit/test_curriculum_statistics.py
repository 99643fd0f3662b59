"""Group statistics: exact means, independent of order, and an honest history."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rods.curriculum.statistics import UNOBSERVED, RewardError, mean_reward

REWARDS = st.lists(st.floats(0, 1, allow_nan=False), min_size=1, max_size=20)


@given(REWARDS, st.randoms())
def test_mean_is_the_exact_mean_rounded_once_in_any_order(rewards, random):
    shuffled = list(rewards)
    random.shuffle(shuffled)
    assert mean_reward(shuffled) == float(sum(map(Fraction, rewards)) / len(rewards))


@given(st.floats(0, 1, allow_nan=False), st.integers(1, 17))
def test_equal_rewards_have_exactly_that_mean(reward, count):
    assert mean_reward([reward] * count) == reward


@pytest.mark.parametrize("rewards", [[], [math.nan], [0.5, math.inf], [-math.inf]])
def test_rewards_without_a_mean_are_refused(rewards):
    with pytest.raises(RewardError, match="finite"):
        mean_reward(rewards)


def test_observations_accumulate():
    first = UNOBSERVED.observe((0.0, 1.0, 1.0, 0.0), step=3, epoch=1)
    second = first.observe((0.5, 0.5), step=9, epoch=2)
    assert (first.count, first.mean, first.variance) == (1, 0.5, 0.25)
    assert (second.count, second.mean, second.variance) == (2, 0.5, 0.0)
    assert (second.last_step, second.last_epoch) == (9, 2)
    assert second.history == ((3, 0.5), (9, 0.5))
    assert UNOBSERVED.count == 0
