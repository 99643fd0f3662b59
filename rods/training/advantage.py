"""How much better a rollout did than its siblings: GRPO's baseline is the group, so there is no critic.

Advantages are computed over whole groups before anything is split over ranks or mini-batches; a group cut
in two would be measured against a different mean.
"""

from __future__ import annotations

import torch

from rods.errors import RodsError

EPSILON = 1e-6  # verl's value; keeps a nearly constant group from exploding


class AdvantageError(RodsError):
    """Rewards from which no group advantage can be computed."""


def group_advantages(rewards: torch.Tensor, normalize: bool) -> torch.Tensor:
    """Advantages Â = (r − mean) / (std + ε) within each group, or r − mean without `normalize`.

    The standard deviation is the unbiased one (K − 1), as in TRL and verl. A group whose rewards are all
    equal carries no signal and gets exactly 0, not rounding noise.

    Args:
        rewards: G×K, one row per group.
        normalize: divide by the group's standard deviation (GRPO); false: mean only (Dr. GRPO).

    Returns:
        G×K, in the dtype of `rewards`.

    Raises:
        AdvantageError: not a G×K floating tensor with K ≥ 2, or a reward that is not finite.
    """
    _check(rewards)
    centred = rewards - rewards.mean(dim=1, keepdim=True)
    if normalize:
        centred = centred / (rewards.std(dim=1, keepdim=True) + EPSILON)
    return centred.masked_fill(zero_variance(rewards).unsqueeze(1), 0.0)


def zero_variance(rewards: torch.Tensor) -> torch.Tensor:
    """Which groups have equal rewards throughout: G booleans for G×K rewards."""
    return rewards.amax(dim=1) == rewards.amin(dim=1)


def _check(rewards: torch.Tensor) -> None:
    if rewards.dim() != 2 or rewards.shape[1] < 2 or not rewards.is_floating_point():
        raise AdvantageError(
            f"rewards: expected a floating G×K tensor with K ≥ 2, found {rewards.dtype} of shape "
            f"{tuple(rewards.shape)}; pass one row of K rewards per group"
        )
    bad = ~torch.isfinite(rewards)
    if bad.any():
        group, index = bad.nonzero()[0].tolist()
        raise AdvantageError(
            f"rewards: expected finite numbers, found {rewards[group, index].item()} at group {group}, "
            f"rollout {index}; check the reward function"
        )
