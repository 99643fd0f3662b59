"""What training has seen of one task: the numbers every curriculum decision is made from.

The mean is computed exactly and rounded once. Zone borders are inclusive, so a group of equal rewards of 0.2
must have a mean of 0.2, and the order in which rollouts finish must not move it across a border.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import msgspec

from rods.curriculum.errors import CurriculumError


class RewardError(CurriculumError):
    """Rewards no statistic can be made of."""


class TaskStatistics(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Observations of one task, oldest first.

    Attributes:
        count: groups observed.
        mean: r̄, mean reward of the latest group; None before the first.
        variance: population variance of the latest group's rewards; None before the first.
        last_step: training step of the latest group; None before the first.
        last_epoch: epoch of the latest group; None before the first.
        history: (step, mean) of every group.
    """

    count: int
    mean: float | None
    variance: float | None
    last_step: int | None
    last_epoch: int | None
    history: tuple[tuple[int, float], ...]

    def observe(self, rewards: Sequence[float], step: int, epoch: int) -> TaskStatistics:
        """The statistics after one more group of rewards.

        Raises:
            RewardError: no rewards, or one that is not finite.
        """
        mean = mean_reward(rewards)
        deviations = [(reward - mean) * (reward - mean) for reward in rewards]
        history = (*self.history, (step, mean))
        return TaskStatistics(self.count + 1, mean, mean_reward(deviations), step, epoch, history)


UNOBSERVED = TaskStatistics(0, None, None, None, None, ())
"""The statistics of a task before its first group."""


def mean_reward(rewards: Sequence[float]) -> float:
    """The exact mean of the rewards, rounded once to a float; it does not depend on their order.

    Raises:
        RewardError: no rewards, or one that is not finite.
    """
    if not rewards or not all(isfinite(reward) for reward in rewards):
        raise RewardError(f"expected one or more finite rewards, found {list(rewards)!r}")
    ratios = [reward.as_integer_ratio() for reward in rewards]
    denominator = max(denominator for _, denominator in ratios)
    total = sum(numerator * (denominator // own) for numerator, own in ratios)
    return total / (denominator * len(rewards))
