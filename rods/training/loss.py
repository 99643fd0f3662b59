"""The clipped policy-gradient loss of GRPO over the tokens that the policy sampled.

All tensors here are flat: one entry per sampled token of a micro-batch; tool output and templates never get
in. How tokens are averaged is decided before (`token_weights`) from the whole mini-batch, so that a weighted
sum over micro-batches and ranks is exact whatever the split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from rods.config import TrainingConfig
from rods.errors import RodsError


class LossError(RodsError):
    """A loss that is not defined for the given input."""


@dataclass(frozen=True)
class Tokens:
    """The sampled tokens of a micro-batch, N entries each.

    Attributes:
        advantages: Â of the token's rollout.
        weights: share of the token in the mini-batch's average, from `token_weights`.
        old: log-probabilities under the learner's weights at the start of the step.
        engine: log-probabilities that the rollout engine sampled with.
        reference: log-probabilities under the frozen start; None without a KL term.
    """

    advantages: torch.Tensor
    weights: torch.Tensor
    old: torch.Tensor
    engine: torch.Tensor
    reference: torch.Tensor | None


@dataclass(frozen=True)
class Terms:
    """Per-token terms of the loss, N entries each and detached, for metrics.

    Attributes:
        ratio: π(new)/π(old).
        kl: low-variance KL estimate, 0 without a reference.
        clipped_low: the lower bound took the gradient away (ratio < 1 − clip_low, negative advantage).
        clipped_high: the upper bound did (ratio > 1 + clip_high, positive advantage).
    """

    ratio: torch.Tensor
    kl: torch.Tensor
    clipped_low: torch.Tensor
    clipped_high: torch.Tensor


def token_weights(counts: Sequence[int], aggregation: str) -> list[float]:
    """The weight of every sampled token of a sequence in the average over a mini-batch.

    Args:
        counts: sampled tokens of each sequence of the *whole* mini-batch, over all ranks.
        aggregation: "token-mean" (1 / Σ counts) or "seq-mean-token-mean" (1 / (S · count): the mean over the
            S sequences of each one's token mean; a sequence without sampled tokens adds 0, as in TRL).

    Raises:
        LossError: no sampled token at all, or an unknown aggregation.
    """
    total = sum(counts)
    if total == 0:
        raise LossError(
            f"expected sampled tokens in a mini-batch, found none in {len(counts)} sequences; skip the step"
        )
    if aggregation == "token-mean":
        return [1 / total] * len(counts)
    if aggregation == "seq-mean-token-mean":
        return [1 / (len(counts) * max(count, 1)) for count in counts]
    raise LossError(
        f"training.loss_aggregation: expected seq-mean-token-mean or token-mean, found {aggregation!r}"
    )


def policy_loss(
    new: torch.Tensor, entropy: torch.Tensor, tokens: Tokens, training: TrainingConfig
) -> tuple[torch.Tensor, Terms]:
    """A micro-batch's share of −J: clipped surrogate + KL − entropy bonus, summed with the tokens' weights.

    Per token, with ratio ρ = exp(new − old) and importance weight w = min(exp(old − engine), cap):
    −w · min(ρÂ, clip(ρ, 1 − clip_low, 1 + clip_high)Â), bounded for Â < 0 by dual_clip · |Â|, plus
    kl_coefficient · (exp(ref − new) − (ref − new) − 1), minus entropy_coefficient · entropy.

    Args:
        new: N log-probabilities under the current weights, with gradient.
        entropy: N entropies of the current distribution in nats.
        tokens: what belongs to the same N tokens.
        training: the coefficients.

    Returns:
        the scalar to differentiate, and the per-token terms.
    """
    ratio = torch.exp(new - tokens.old)
    per_token = -_surrogate(ratio, tokens.advantages, training) * _importance(tokens, training)
    kl = torch.zeros_like(new)
    if tokens.reference is not None:
        kl = low_variance_kl(new, tokens.reference)
        per_token = per_token + training.kl_coefficient * kl
    if training.entropy_coefficient:
        per_token = per_token - training.entropy_coefficient * entropy
    return (per_token * tokens.weights).sum(), _terms(
        ratio.detach(), kl.detach(), tokens.advantages, training
    )


def low_variance_kl(new: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Schulman's k3 estimate of KL(π‖π_ref) from samples of π: exp(d) − d − 1 ≥ 0, d = reference − new."""
    difference = reference - new
    return torch.exp(difference) - difference - 1


def _surrogate(ratio: torch.Tensor, advantages: torch.Tensor, training: TrainingConfig) -> torch.Tensor:
    clipped = ratio.clamp(1 - training.clip_low, 1 + training.clip_high)
    objective = torch.minimum(ratio * advantages, clipped * advantages)
    if training.dual_clip is None:
        return objective
    # A huge ratio with a negative advantage is otherwise unbounded below.
    bounded = torch.maximum(objective, training.dual_clip * advantages)
    return torch.where(advantages < 0, bounded, objective)


def _importance(tokens: Tokens, training: TrainingConfig) -> torch.Tensor:
    """Truncated importance weights from the engine's to the learner's distribution, without gradient."""
    if training.importance_cap is None:
        return torch.ones_like(tokens.old)
    return torch.exp(tokens.old - tokens.engine).clamp(max=training.importance_cap)


def _terms(
    ratio: torch.Tensor, kl: torch.Tensor, advantages: torch.Tensor, training: TrainingConfig
) -> Terms:
    low = (ratio < 1 - training.clip_low) & (advantages < 0)
    high = (ratio > 1 + training.clip_high) & (advantages > 0)
    return Terms(ratio, kl, low, high)
