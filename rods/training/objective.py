"""From groups of rollouts to an update: who gets which credit, and who is left out.

GRPO takes the group's mean as the baseline, PPO a critic. Under both, groups are whole here: nothing is split
over ranks or mini-batches before the advantages stand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import torch

from rods.config import TrainingConfig
from rods.rollout.episode import Rollout
from rods.training.advantage import group_advantages
from rods.training.critic import Critic, Estimate, whiten
from rods.training.learner import Learner

Groups = Sequence[Sequence[Rollout]]


def update(learner: Learner, groups: Groups, on_progress: Callable[[], None]) -> dict[str, float]:
    """Train on one step's groups.

    Rollouts without a sampled token have nothing to train; with `training.skip_zero_variance` neither has a group
    without signal, and the averages are then over the others alone (without it, such a group's tokens count as
    zeros, and its KL and entropy terms act).

    Args:
        learner: of the policy, with its critic under PPO.
        groups: K rollouts per task, on every rank.
        on_progress: called after every micro-batch.

    Returns:
        the learner's metrics, and the critic's; empty when nothing was left to train on.

    Raises:
        AdvantageError, BatchError: rewards or rollouts that cannot be trained on.
        DivergedError: see `Learner.update`.
    """
    training = learner.training
    if training.skip_zero_variance:
        groups = [group for group in groups if has_signal(group, training)]
    if not any(any(rollout.mask) for rollout in chain.from_iterable(groups)):
        return {}
    if learner.critic is not None:
        return _ppo(learner, learner.critic, groups, on_progress)
    pairs = [pair for group in groups for pair in zip(group, advantages(group, training), strict=True)]
    trained = [(rollout, advantage) for rollout, advantage in pairs if any(rollout.mask)]
    return learner.update([rollout for rollout, _ in trained], [each for _, each in trained], on_progress)


def advantages(group: Sequence[Rollout], training: TrainingConfig) -> list[torch.Tensor]:
    """GRPO's advantages of a group: of each rollout a number, or with credit by turn one per sampled token.

    By turn (our extension): user turn t of rollout i earns r_it = 1 if it passed, else 0, unreached turns
    included, as in the progress reward R = Σ_t r_it / N. Its advantage is measured against the same turn of the
    group's K rollouts: Â_it = (r_it − mean_j r_jt) / (std_j r_jt + ε), without the division where
    `normalize_advantage` is off, and exactly 0 where all agree. A token has the advantage of the turn in which it
    was sampled. So a turn answers for itself alone: what it ruins for later turns is not charged to it.

    Raises:
        AdvantageError: fewer than two rollouts, or a reward that is not finite.
    """
    if training.credit == "episode":
        rewards = torch.tensor([[rollout.reward for rollout in group]])
        return list(group_advantages(rewards, training.normalize_advantage)[0])
    by_turn = group_advantages(turn_rewards(group).T, training.normalize_advantage).T  # K×N
    return [row[_sampled_turns(rollout)] for row, rollout in zip(by_turn, group, strict=True)]


def turn_rewards(group: Sequence[Rollout]) -> torch.Tensor:
    """K×N: 1 where a rollout passed a user turn, 0 where it failed or did not reach it."""
    rewards = torch.zeros(len(group), group[0].outcome.turns)
    for row, rollout in zip(rewards, group, strict=True):
        verdicts = rollout.outcome.verdicts
        row[: len(verdicts)] = torch.tensor([float(verdict.passed) for verdict in verdicts])
    return rewards


def has_signal(group: Sequence[Rollout], training: TrainingConfig) -> bool:
    """Whether any rollout of the group has an advantage other than 0."""
    return any(bool(each.any()) for each in advantages(group, training))


def token_rewards(rollout: Rollout, credit: str) -> torch.Tensor:
    """PPO's rewards, one per sampled token; they sum to the rollout's reward.

    With credit by episode the last sampled token is paid, by turn the last one of each passed turn, 1/N.
    """
    turns = _sampled_turns(rollout)
    rewards = torch.zeros(len(turns))
    if credit == "episode":
        rewards[-1] = rollout.reward
        return rewards
    for turn, verdict in enumerate(rollout.outcome.verdicts):
        if verdict.passed:
            rewards[(turns == turn).nonzero()[-1]] += 1 / rollout.outcome.turns
    return rewards


def _ppo(
    learner: Learner, critic: Critic, groups: Groups, on_progress: Callable[[], None]
) -> dict[str, float]:
    training = learner.training
    rollouts = [rollout for rollout in chain.from_iterable(groups) if any(rollout.mask)]
    estimate = critic.estimate(rollouts, [token_rewards(rollout, training.credit) for rollout in rollouts])
    metrics = _figures(estimate) | critic.update(rollouts, estimate, on_progress)
    if critic.steps <= training.critic.alone_steps:
        return metrics
    credit = whiten(estimate.advantages) if training.normalize_advantage else estimate.advantages
    return learner.update(rollouts, credit, on_progress) | metrics


def _figures(estimate: Estimate) -> dict[str, float]:
    """Var(Â) before whitening, mean value and return, and the share of the returns' variance that is explained."""
    spread, values, returns = (
        torch.cat(each) for each in (estimate.advantages, estimate.values, estimate.returns)
    )
    unexplained = (returns - values).var() / returns.var().clamp(min=torch.finfo(torch.float32).tiny)
    return {
        "advantage_variance": float(spread.var()),
        "value_mean": float(values.mean()),
        "return_mean": float(returns.mean()),
        "explained_variance": 1 - float(unexplained),
    }


def _sampled_turns(rollout: Rollout) -> torch.Tensor:
    """The user turn of each sampled token."""
    return torch.tensor(rollout.turns)[torch.tensor(rollout.mask, dtype=torch.bool)]
