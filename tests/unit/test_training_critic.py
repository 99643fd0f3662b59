"""PPO's parts against values computed by hand and against the recursions as they are written in the papers."""

from __future__ import annotations

import pytest
import random_policy
import torch
from hypothesis import given
from hypothesis import strategies as st

from rods.config import CriticConfig
from rods.training.attention import PACKED
from rods.training.batch import lay
from rods.training.critic import ValueModel, gae, value_loss, whiten


def test_advantages_by_hand() -> None:
    # γ = 0.9, λ = 0.5: δ = (0 + .9·.4 − .2, 0 + .9·.6 − .4, 1 − .6) = (.16, .14, .4)
    # Â_2 = .4; Â_1 = .14 + .45·.4 = .32; Â_0 = .16 + .45·.32 = .304
    config = CriticConfig(discount=0.9, gae_lambda=0.5)
    (found,) = gae([torch.tensor([0.0, 0.0, 1.0])], [torch.tensor([0.2, 0.4, 0.6])], config)
    assert found.tolist() == pytest.approx([0.304, 0.32, 0.4])


def test_without_discount_the_returns_are_what_is_still_to_come() -> None:
    config = CriticConfig(discount=1.0, gae_lambda=1.0)
    rewards, values = torch.tensor([0.5, 0.0, 0.25]), torch.tensor([3.0, -1.0, 7.0])
    (found,) = gae([rewards], [values], config)
    assert (found + values).tolist() == pytest.approx([0.75, 0.25, 0.25])


_NUMBERS = st.floats(-2, 2, width=32)
_EPISODE = st.lists(st.tuples(_NUMBERS, _NUMBERS), min_size=1, max_size=7)


@given(
    st.lists(_EPISODE, min_size=1, max_size=5),
    st.floats(0.0625, 1, width=32),
    st.floats(0, 1, width=32),
)
def test_advantages_are_the_discounted_sums_of_errors(
    episodes: list[list[tuple[float, float]]], discount: float, decay: float
) -> None:
    rewards = [torch.tensor([reward for reward, _ in each], dtype=torch.float64) for each in episodes]
    values = [torch.tensor([value for _, value in each], dtype=torch.float64) for each in episodes]
    found = gae(rewards, values, CriticConfig(discount=discount, gae_lambda=decay))
    for row, paid, value in zip(found, rewards, values, strict=True):
        after = [*value.tolist()[1:], 0.0]
        errors = [
            r + discount * then - now
            for r, then, now in zip(paid.tolist(), after, value.tolist(), strict=True)
        ]
        wanted = [
            sum((discount * decay) ** distance * error for distance, error in enumerate(errors[start:]))
            for start in range(len(errors))
        ]
        assert row.tolist() == pytest.approx(wanted, abs=1e-9)


def test_whitened_advantages_have_mean_0_and_deviation_1_over_all_rollouts() -> None:
    whole = torch.cat(whiten([torch.tensor([1.0, 2.0, 4.0]), torch.tensor([-3.0])]))
    assert whole.mean().item() == pytest.approx(0, abs=1e-6)
    assert whole.std().item() == pytest.approx(1, rel=1e-5)
    assert whole.argsort().tolist() == [3, 0, 1, 2]


@pytest.mark.parametrize(
    ("value", "old", "target", "clip", "loss", "clipped"),
    [
        (1.0, 1.0, 3.0, 0.2, 2.0, False),
        (1.5, 1.0, 3.0, 0.2, 0.5 * 1.8**2, True),  # went towards the target: held at 1.2
        (0.5, 1.0, 3.0, 0.2, 0.5 * 2.5**2, False),  # went away: the larger error counts, with its gradient
        (1.5, 1.0, 3.0, None, 0.5 * 1.5**2, False),
    ],
)
def test_value_loss_by_hand(
    value: float, old: float, target: float, clip: float | None, loss: float, clipped: bool
) -> None:
    values = torch.tensor([value, 9.0], requires_grad=True)
    weights = torch.tensor([0.25, 0.0])
    found, count = value_loss(values, torch.tensor([old, 9.0]), torch.tensor([target, 9.0]), weights, clip)
    assert found.item() == pytest.approx(0.25 * loss)
    assert count.item() == clipped
    (gradient,) = torch.autograd.grad(found, values)
    assert (gradient[0].item() == 0) is clipped


def test_a_critic_values_the_states_before_the_sampled_tokens() -> None:
    start = random_policy.model(0)
    start.set_attn_implementation(PACKED)
    model = ValueModel(start)
    packed = lay([(5, 9, 7), (8, 4)], [(0, 1, 1), (0, 1)], torch.device("cpu"))
    assert model(packed).tolist() == [0.0, 0.0, 0.0]  # knows nothing yet
    torch.nn.init.normal_(model.head.weight)
    start.set_attn_implementation("sdpa")
    hidden = [model.trunk(torch.tensor([ids])).last_hidden_state[0, :-1] for ids in ((5, 9, 7), (8, 4))]
    start.set_attn_implementation(PACKED)
    torch.testing.assert_close(model(packed), model.head(torch.cat(hidden))[:, 0], rtol=1e-5, atol=1e-5)
