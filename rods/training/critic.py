"""PPO's baseline: a critic that values each sampled token's state, and the advantages that follow from it.

The critic is a model of its own, the policy's start with a value head in place of the vocabulary, so that its
loss never bends the policy. Time runs over sampled tokens only: what the simulation writes in between is part
of the transition (verl leaves it out in the same way).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel

from rods.config import CriticConfig, TrainingConfig
from rods.training import batch, distributed, policy
from rods.training.advantage import EPSILON
from rods.training.batch import Micro, MiniBatch, Packed, Sequenced
from rods.training.loss import token_weights
from rods.training.optimizer import Optimized, warmup_steps


@dataclass(frozen=True)
class Estimate:
    """What the critic says of a step's rollouts: one tensor per rollout, one entry per sampled token, on the CPU.

    Attributes:
        values: V of the state before each token, under the step's first weights.
        returns: the critic's targets, advantages + values.
        advantages: GAE's, not whitened.
    """

    values: list[torch.Tensor]
    returns: list[torch.Tensor]
    advantages: list[torch.Tensor]


class ValueModel(nn.Module):
    """A language model's trunk with a head of one number, 0 at the start.

    Args:
        model: its output head is let go.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.trunk = model.base_model
        self.head = nn.Linear(model.config.hidden_size, 1, dtype=model.dtype)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, packed: Packed) -> torch.Tensor:
        """Values of the states before the N chosen tokens, fp32."""
        return self.head(policy.hidden_before(self.trunk, packed)).squeeze(-1).float()


class Critic:
    """Trains a `ValueModel`; every rank holds one and calls the same methods with the same arguments.

    Args:
        model_dir: the policy's start.
        dtype: of the weights.
        training: `critic`, and what policy and critic share.
        optimizer_steps: planned, for the warm-up.
        seed: of the order in which rollouts fall into mini-batches.
        device: this rank's.

    Attributes:
        engine: DeepSpeed's.
        order: draws the order.
        steps: updates so far.
    """

    def __init__(
        self,
        model_dir: Path | str,
        dtype: str,
        training: TrainingConfig,
        optimizer_steps: int,
        seed: int,
        device: torch.device,
    ) -> None:
        self.training, self.device, self.steps = training, device, 0
        self.order = torch.Generator().manual_seed(seed)
        start = policy.load_model(model_dir, dtype)
        policy.recompute_activations(start, training, device)
        self.model = ValueModel(start)
        warmup = warmup_steps(training.critic.warmup_fraction, optimizer_steps)
        self._optimized = Optimized(self.model, training, dtype, training.critic.learning_rate, warmup)
        self.engine = self._optimized.engine

    def estimate(self, rollouts: Sequence[Sequenced], rewards: Sequence[torch.Tensor]) -> Estimate:
        """Values, returns and advantages under the current weights.

        Args:
            rollouts: all of the step's.
            rewards: of each rollout, one per sampled token.

        Raises:
            BatchError: rollouts that cannot be valued.
        """
        batch.check(rollouts, rewards, self.training.micro_batch_tokens)
        (mini,) = self._plan(rollouts, range(len(rollouts)), 1)
        ends = torch.tensor([sum(rollout.mask) for rollout in rollouts]).cumsum(0).tolist()
        flat = torch.zeros(ends[-1], device=self.device)
        for micro in mini.ranks[dist.get_rank()]:
            mine = [rollouts[index] for index in micro]
            with torch.no_grad():
                found = self.engine(batch.lay_rollouts(mine, self.device))
            for index, part in zip(micro, found.split([sum(r.mask) for r in mine]), strict=True):
                flat[ends[index] - len(part) : ends[index]] = part
        flat = distributed.reduce(flat, dist.ReduceOp.SUM).cpu()
        values = list(flat.tensor_split(ends[:-1]))
        advantages = gae(rewards, values, self.training.critic)
        returns = [advantage + value for advantage, value in zip(advantages, values, strict=True)]
        return Estimate(values, returns, advantages)

    def update(
        self,
        rollouts: Sequence[Sequenced],
        estimate: Estimate,
        on_progress: Callable[[], None] = lambda: None,
    ) -> dict[str, float]:
        """Fit the values to the returns.

        Returns:
            critic_loss and critic_grad_norm (means over optimizer steps), critic_clip_fraction (tokens whose value
            had left the clip range where that took the gradient away), critic_learning_rate (of the last).

        Raises:
            BatchError, LossError: rollouts that cannot be trained on; the weights are untouched.
            DivergedError: a loss or gradient norm that is not finite.
        """
        order = torch.randperm(len(rollouts), generator=self.order).tolist()
        minis = self._plan(rollouts, order, self.training.mini_batches)
        told = [self._optimizer_step(mini, rollouts, estimate, on_progress) for mini in minis]
        losses, clipped, norms, rates = zip(*told, strict=True)
        self.steps += 1
        return {
            "critic_loss": sum(losses) / len(minis),
            "critic_clip_fraction": sum(clipped) / sum(sum(rollout.mask) for rollout in rollouts),
            "critic_grad_norm": sum(norms) / len(minis),
            "critic_learning_rate": rates[-1],
        }

    def _optimizer_step(
        self,
        mini: MiniBatch,
        rollouts: Sequence[Sequenced],
        estimate: Estimate,
        on_progress: Callable[[], None],
    ) -> tuple[float, float, float, float]:
        counts = [sum(rollouts[index].mask) for index in mini.rollouts]
        shares = token_weights(counts, self.training.loss_aggregation)
        weights = dict(zip(mini.rollouts, shares, strict=True))
        sums = torch.zeros(2, dtype=torch.float64, device=self.device)
        for micro in mini.ranks[dist.get_rank()]:
            loss, clipped = self._loss(micro, rollouts, estimate, weights)
            self._optimized.backward(loss)
            sums += torch.stack([loss.detach(), clipped]).double()
            on_progress()
        total, clipped_total = distributed.reduce(sums, dist.ReduceOp.SUM).tolist()
        return total, clipped_total, *self._optimized.step(total)

    def _loss(
        self,
        micro: Micro,
        rollouts: Sequence[Sequenced],
        estimate: Estimate,
        weights: dict[int, float],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        mine = [rollouts[index] for index in micro]
        counts = [sum(rollout.mask) for rollout in mine]
        values = self.engine(batch.lay_rollouts(mine, self.device))
        old = batch.spread([estimate.values[index] for index in micro], counts, self.device)
        returns = batch.spread([estimate.returns[index] for index in micro], counts, self.device)
        share = batch.spread([weights[index] for index in micro], counts, self.device)
        return value_loss(values, old, returns, share, self.training.critic.clip)

    def _plan(
        self, rollouts: Sequence[Sequenced], order: Sequence[int], mini_batches: int
    ) -> list[MiniBatch]:
        lengths = [len(rollout.token_ids) for rollout in rollouts]
        return batch.plan(
            lengths, order, mini_batches, dist.get_world_size(), self.training.micro_batch_tokens
        )


def gae(
    rewards: Sequence[torch.Tensor], values: Sequence[torch.Tensor], critic: CriticConfig
) -> list[torch.Tensor]:
    """Generalized advantage estimates (Schulman et al. 2016) over each rollout's sampled tokens.

    δ_t = r_t + γ V_{t+1} − V_t with V = 0 after the last token, Â_t = δ_t + γλ Â_{t+1}. An episode that was cut
    short ends as well: its unfinished turns count 0.

    Args:
        rewards: per rollout one per token, paid after it.
        values: of the states before the tokens, in the same shapes.
        critic: γ (`discount`) and λ (`gae_lambda`).
    """
    paid, value = (pad_sequence(list(each), batch_first=True) for each in (rewards, values))
    after = torch.cat([value[:, 1:], torch.zeros_like(value[:, :1])], dim=1)
    deltas = paid + critic.discount * after - value
    advantages = torch.zeros_like(deltas)
    running = torch.zeros_like(deltas[:, 0])
    for place in range(deltas.shape[1] - 1, -1, -1):
        running = deltas[:, place] + critic.discount * critic.gae_lambda * running
        advantages[:, place] = running
    return [row[: len(each)] for row, each in zip(advantages, rewards, strict=True)]


def whiten(advantages: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Mean 0 and standard deviation 1 (unbiased) over all tokens of all rollouts."""
    every = torch.cat(list(advantages))
    return [(each - every.mean()) / (every.std() + EPSILON) for each in advantages]


def value_loss(
    values: torch.Tensor, old: torch.Tensor, returns: torch.Tensor, weights: torch.Tensor, clip: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """½ max((V − R)², (clip(V, V_old ± clip) − R)²), summed with the tokens' weights.

    Args:
        values: N current values, with gradient.
        old: N values at the step's start.
        returns: N targets.
        weights: N, from `token_weights`.
        clip: null: plain squared error.

    Returns:
        the scalar to differentiate, and how many tokens' gradient the clip took away.
    """
    error = (values - returns).square()
    if clip is None:
        return 0.5 * (error * weights).sum(), torch.zeros_like(error).sum()
    bounded = (values.clamp(old - clip, old + clip) - returns).square()
    loss = 0.5 * (torch.maximum(error, bounded) * weights).sum()
    return loss, (bounded > error).sum()
