"""PPO on DeepSpeed against the same step written in plain PyTorch, and across a restart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from learner_examples import PPO, Sample, learner, plain_update, ppo_step, rewards_of, samples
from rollout_examples import episode
from transformers import AutoModelForCausalLM

from rods.training import objective
from rods.training.state import StateError


class PlainCritic:
    """The value model, its estimates and its step, rollout by rollout."""

    def __init__(self, folder: Path) -> None:
        self.trunk = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).base_model
        self.head = torch.nn.Linear(64, 1)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)
        self.parameters = [*self.trunk.parameters(), *self.head.parameters()]
        critic = PPO.critic
        self.optimizer = torch.optim.AdamW(
            self.parameters, critic.learning_rate, PPO.adam_betas, weight_decay=PPO.weight_decay
        )

    def values(self, rollout: Sample) -> torch.Tensor:
        hidden = self.trunk(torch.tensor([rollout.token_ids])).last_hidden_state[0]
        return self.head(hidden)[:-1, 0][torch.tensor(rollout.mask[1:]).bool()]

    def estimate(self, rollout: Sample, rewards: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values = self.values(rollout).detach()
        advantages, following, running = torch.zeros_like(values), 0.0, 0.0
        for place in reversed(range(len(values))):
            error = rewards[place] + PPO.critic.discount * following - values[place]
            running = error + PPO.critic.discount * PPO.critic.gae_lambda * running
            advantages[place], following = running, values[place]
        return values, advantages

    def step(self, part: list[Sample], olds: list[torch.Tensor], targets: list[torch.Tensor]) -> float:
        losses = []
        assert PPO.critic.clip is not None
        for rollout, old, target in zip(part, olds, targets, strict=True):
            value = self.values(rollout)
            bounded = torch.max(torch.min(value, old + PPO.critic.clip), old - PPO.critic.clip)
            losses.append(0.5 * torch.maximum((value - target) ** 2, (bounded - target) ** 2).mean())
        self.optimizer.zero_grad()
        torch.stack(losses).mean().backward()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, PPO.gradient_clip)
        self.optimizer.step()
        return float(norm)


@pytest.mark.parametrize("zero_stage", [0, 1, 2, 3])
def test_a_ppo_step_equals_plain_pytorch(policy_dir: Path, zero_stage: int) -> None:
    rollouts, _ = samples(12)
    trained = learner(policy_dir, replace(PPO, zero_stage=zero_stage))
    for _ in range(2):  # at the first step all values are 0
        metrics = ppo_step(trained, rollouts)

    plain, order = PlainCritic(policy_dir), torch.Generator().manual_seed(0)
    for _ in range(2):
        pairs = [
            plain.estimate(rollout, reward)
            for rollout, reward in zip(rollouts, rewards_of(rollouts), strict=True)
        ]
        values, advantages = [value for value, _ in pairs], [advantage for _, advantage in pairs]
        norms = []
        for part in torch.randperm(12, generator=order).view(2, 6).tolist():
            targets = [values[index] + advantages[index] for index in part]
            norms.append(
                plain.step([rollouts[index] for index in part], [values[index] for index in part], targets)
            )
    assert metrics["critic_grad_norm"] == pytest.approx(sum(norms) / 2, rel=1e-3)
    assert metrics["critic_clip_fraction"] > 0
    assert trained.critic is not None
    found = trained.critic.estimate(rollouts, rewards_of(rollouts))
    for rollout, value in zip(rollouts, found.values, strict=True):
        torch.testing.assert_close(value, plain.values(rollout).detach(), rtol=0, atol=1e-4)
        assert value.abs().max() > 5e-3


def test_the_policys_step_takes_an_advantage_per_token(policy_dir: Path) -> None:
    rollouts, advantages = samples(12)
    config = replace(PPO, mini_batches=1)
    one, other = learner(policy_dir, config), learner(policy_dir, config)
    one.update(rollouts, advantages)
    each = [
        torch.full((sum(rollout.mask),), advantage)
        for rollout, advantage in zip(rollouts, advantages, strict=True)
    ]
    other.update(rollouts, each)
    expected, _ = plain_update(policy_dir, rollouts, advantages, config)
    for (name, tensor), (_, same) in zip(one.weights(), other.weights(), strict=True):
        assert torch.equal(tensor, same)
        torch.testing.assert_close(tensor, expected[name], rtol=0, atol=5e-6)


def test_a_restart_continues_policy_and_critic_bit_for_bit(policy_dir: Path, tmp_path: Path) -> None:
    config = replace(PPO, critic=replace(PPO.critic, warmup_fraction=0.5))
    batches = [samples(8, seed=number)[0] for number in range(4)]
    straight = learner(policy_dir, config, steps=4)
    told = [ppo_step(straight, each) for each in batches]
    assert len({metrics["critic_learning_rate"] for metrics in told}) > 2

    first = learner(policy_dir, config, steps=4)
    for each in batches[:2]:
        ppo_step(first, each)
    first.save(tmp_path)
    second = learner(policy_dir, config, steps=4)
    ppo_step(second, batches[3])
    second.load(tmp_path)
    assert [ppo_step(second, each) for each in batches[2:]] == told[2:]
    assert second.critic is not None
    assert second.critic.steps == 4


def test_a_checkpoint_without_a_critic_is_refused(policy_dir: Path, tmp_path: Path) -> None:
    learner(policy_dir, replace(PPO, algorithm="grpo")).save(tmp_path)
    with pytest.raises(StateError, match="algorithm = grpo, this run has ppo"):
        learner(policy_dir, PPO).load(tmp_path)


def test_whole_steps_of_ppo_through_the_objective(policy_dir: Path) -> None:
    group = [episode([True, False], 2, [4, 3]), episode([True, True], 2, [2, 5])]
    trained = learner(
        policy_dir,
        replace(
            PPO, credit="turn", mini_batches=1, critic=replace(PPO.critic, alone_steps=1, learning_rate=1e-2)
        ),
    )
    before = dict(trained.weights())
    alone = objective.update(trained, [group], lambda: None)
    assert alone["return_mean"] > 0
    assert "grad_norm" not in alone
    assert all(torch.equal(before[name], tensor) for name, tensor in trained.weights())
    told = objective.update(trained, [group], lambda: None)
    assert told["grad_norm"] > 0
    assert any(not torch.equal(before[name], tensor) for name, tensor in trained.weights())
    for _ in range(30):
        told = objective.update(trained, [group], lambda: None)
    assert told["critic_loss"] < alone["critic_loss"] / 2
    assert told["explained_variance"] > alone["explained_variance"]
