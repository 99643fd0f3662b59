"""Group advantages: against TRL's own statistics, and where they must be exactly zero."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rods.training.advantage import EPSILON, AdvantageError, group_advantages, zero_variance


def test_equals_trls_group_scaling() -> None:
    trl_utils = pytest.importorskip("trl.trainer.utils")
    rewards = torch.rand(7, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    # GRPOTrainer, scale_rewards="group": flat rewards, its nanstd; ε is verl's 1e-6 where TRL has 1e-4.
    flat = rewards.flatten()
    mean = torch.nanmean(flat.view(-1, 8), dim=1).repeat_interleave(8)
    std = trl_utils.nanstd(flat.view(-1, 8), dim=1).repeat_interleave(8)
    expected = ((flat - mean) / (std + EPSILON)).view(7, 8)
    # TRL's nanstd corrects the variance in fp32.
    torch.testing.assert_close(group_advantages(rewards, True), expected, rtol=0, atol=1e-6)


def test_hand_computed() -> None:
    advantages = group_advantages(torch.tensor([[0.0, 1.0, 1.0, 0.0]], dtype=torch.float64), True)
    # mean 1/2, unbiased std sqrt(1/3)
    expected = 0.5 / ((1 / 3) ** 0.5 + EPSILON)
    torch.testing.assert_close(
        advantages, torch.tensor([[-1, 1, 1, -1]], dtype=torch.float64) * expected, rtol=0, atol=1e-12
    )


def test_mean_only() -> None:
    advantages = group_advantages(torch.tensor([[0.0, 1.0, 0.5]]), False)
    assert advantages.tolist() == [[-0.5, 0.5, 0.0]]


def test_zero_variance_is_exactly_zero_and_counted() -> None:
    # The fp32 mean of three times 0.1 is not 0.1: rounding noise over ε would otherwise pass for signal.
    rewards = torch.tensor([[0.1] * 7, [0.0] * 7, [0.0] * 6 + [1.0]])
    advantages = group_advantages(rewards, True)
    assert torch.equal(advantages[:2], torch.zeros(2, 7))
    assert advantages[2].abs().min() > 0
    assert zero_variance(rewards).tolist() == [True, True, False]


@given(st.lists(st.lists(st.floats(0, 1, width=32), min_size=4, max_size=4), min_size=1, max_size=5))
def test_groups_are_independent_and_centred(rows: list[list[float]]) -> None:
    rewards = torch.tensor(rows, dtype=torch.float64)
    advantages = group_advantages(rewards, True)
    assert torch.isfinite(advantages).all()
    torch.testing.assert_close(
        advantages.sum(1), torch.zeros(len(rows), dtype=torch.float64), rtol=0, atol=1e-6
    )
    for row in range(len(rows)):
        torch.testing.assert_close(advantages[row], group_advantages(rewards[row : row + 1], True)[0])


@pytest.mark.parametrize(
    ("rewards", "said"),
    [
        (torch.rand(4), "G×K"),
        (torch.rand(4, 1), "K ≥ 2"),
        (torch.ones(2, 2, dtype=torch.long), "floating"),
        (torch.tensor([[0.0, 1.0], [0.5, float("nan")]]), "group 1, rollout 1"),
        (torch.tensor([[0.0, float("inf")]]), "group 0, rollout 1"),
    ],
)
def test_refuses(rewards: torch.Tensor, said: str) -> None:
    with pytest.raises(AdvantageError, match=said):
        group_advantages(rewards, True)
