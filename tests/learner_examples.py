"""Rollouts for learners on the random policy, and GRPO written down a second time, in plain PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from rods.config import CriticConfig, ModelConfig, TrainingConfig
from rods.training.critic import whiten
from rods.training.learner import Learner

VOCABULARY = 263
TRAINING = TrainingConfig(
    learning_rate=1e-3,
    weight_decay=0.1,
    warmup_fraction=0.0,
    kl_coefficient=0.05,
    entropy_coefficient=0.01,
    gradient_clip=0.1,
    micro_batch_tokens=60,
    threads=1,
)
RANKED = replace(TRAINING, learning_rate=1e-4, mini_batches=2)
PPO = replace(
    TRAINING,
    algorithm="ppo",
    learning_rate=1e-4,
    mini_batches=2,
    critic=CriticConfig(learning_rate=2e-4, warmup_fraction=0.0, discount=0.99, gae_lambda=0.9, clip=0.002),
)


@dataclass(frozen=True)
class Sample:
    """The part of a rollout that training reads."""

    token_ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float, ...]


def samples(count: int, seed: int = 0) -> tuple[list[Sample], list[float]]:
    """`count` rollouts of 6 to 24 tokens with holes in their masks, and advantages of both signs."""
    generator = torch.Generator().manual_seed(seed)

    def sample() -> Sample:
        length = int(torch.randint(6, 25, (1,), generator=generator))
        ids = torch.randint(VOCABULARY, (length,), generator=generator)
        mask = (torch.rand(length, generator=generator) < 0.6).long()
        mask[0], mask[-1] = 0, 1
        logprobs = -4 - torch.rand(length, generator=generator) * 3
        return Sample(tuple(ids.tolist()), tuple(mask.tolist()), tuple((logprobs * mask).tolist()))

    rollouts = [sample() for _ in range(count)]
    return rollouts, torch.randn(count, generator=generator).tolist()


def learner(folder: Path, training: TrainingConfig, steps: int = 10, dtype: str = "float32") -> Learner:
    """A learner on the policy in `folder`, seed 0."""
    return Learner(folder, ModelConfig(dtype=dtype, max_length=60), training, steps, seed=0)


def rewards_of(rollouts: Sequence[Sample]) -> list[torch.Tensor]:
    """Something is paid after every sampled token."""
    generator = torch.Generator().manual_seed(1)
    return [torch.rand(sum(rollout.mask), generator=generator) for rollout in rollouts]


def ppo_step(trained: Learner, rollouts: Sequence[Sample]) -> dict[str, float]:
    """The critic's and then the policy's part of a step; returns both's metrics."""
    assert trained.critic is not None
    estimate = trained.critic.estimate(rollouts, rewards_of(rollouts))
    told = trained.critic.update(rollouts, estimate)
    return told | trained.update(rollouts, whiten(estimate.advantages))


def plain_update(
    folder: Path, rollouts: Sequence[Sample], advantages: Sequence[float], config: TrainingConfig
) -> tuple[dict[str, torch.Tensor], float]:
    """One training step without DeepSpeed, padding or micro-batches.

    Returns:
        weights by Hugging Face name, and the mean gradient norm of its optimizer steps.
    """
    policy = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    start = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    optimizer = torch.optim.AdamW(
        policy.parameters(), config.learning_rate, config.adam_betas, weight_decay=config.weight_decay
    )
    order = torch.randperm(len(rollouts), generator=torch.Generator().manual_seed(0)).tolist()
    size, norms = len(order) // config.mini_batches, []
    for number in range(config.mini_batches):
        part = order[number * size : (number + 1) * size]
        total = sum(sum(rollouts[index].mask) for index in part)
        losses = []
        for index in part:
            per_token = _per_token(policy, start, rollouts[index], advantages[index], config)
            scale = 1 / total if config.loss_aggregation == "token-mean" else 1 / (len(part) * len(per_token))
            losses.append(per_token.sum() * scale)
        optimizer.zero_grad()
        torch.stack(losses).sum().backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(policy.parameters(), config.gradient_clip)))
        optimizer.step()
    return policy.state_dict(), sum(norms) / len(norms)


def _per_token(
    policy: torch.nn.Module, start: torch.nn.Module, rollout: Sample, advantage: float, config: TrainingConfig
) -> torch.Tensor:
    where = torch.tensor(rollout.mask[1:]).bool()
    log_probs = policy(torch.tensor([rollout.token_ids])).logits[0, :-1].log_softmax(-1)[where]
    with torch.no_grad():  # the start is the reference, and before the first step also the old policy
        reference = start(torch.tensor([rollout.token_ids])).logits[0, :-1].log_softmax(-1)[where]
    targets = torch.tensor(rollout.token_ids[1:])[where].unsqueeze(1)
    new, old = log_probs.gather(1, targets)[:, 0], reference.gather(1, targets)[:, 0]
    ratio = (new - old).exp()
    clipped = ratio.clamp(1 - config.clip_low, 1 + config.clip_high)
    objective = torch.minimum(ratio * advantage, clipped * advantage)
    weight = (old - torch.tensor(rollout.logprobs[1:])[where]).exp().clamp(max=config.importance_cap)
    kl = (old - new).exp() - (old - new) - 1
    entropy = -(log_probs.exp() * log_probs).sum(-1)
    return -objective * weight + config.kl_coefficient * kl - config.entropy_coefficient * entropy
