"""Who gets which credit: by episode, by turn, by a critic's rewards; and which groups are left out."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from rollout_examples import episode

from rods.config import TrainingConfig
from rods.rollout.episode import Rollout
from rods.training import objective
from rods.training.advantage import EPSILON, AdvantageError

BY_TURN = TrainingConfig(credit="turn")


GROUP = [
    episode([True, False], 2, [2, 1]),
    episode([True, True], 2, [1, 3]),
    episode([True], 2, [1, 2]),  # cut short in its second turn
    episode([False, False], 2, [1, 1]),
]


def test_by_episode_all_tokens_share_the_groups_advantage() -> None:
    found = objective.advantages(GROUP, TrainingConfig())
    mean, std = 0.5, torch.tensor([0.5, 1.0, 0.5, 0.0]).std().item()
    assert [each.shape for each in found] == [()] * 4
    assert torch.stack(found).tolist() == pytest.approx(
        [(r - mean) / (std + EPSILON) for r in (0.5, 1.0, 0.5, 0.0)]
    )


def test_by_turn_each_turn_is_measured_against_its_own_kind() -> None:
    # Turn 0: 1 1 1 0, mean 3/4, std 1/2. Turn 1: 0 1 0 0 (never closed counts 0), mean 1/4, std 1/2.
    small, large = 0.25 / (0.5 + EPSILON), 0.75 / (0.5 + EPSILON)
    wanted = [
        [small, small, -small],
        [small, large, large, large],
        [small, -small, -small],
        [-large, -small],
    ]
    for found, values in zip(objective.advantages(GROUP, BY_TURN), wanted, strict=True):
        assert found.tolist() == pytest.approx(values, rel=1e-6)


def test_by_turn_without_the_division() -> None:
    found = objective.advantages(GROUP, TrainingConfig(credit="turn", normalize_advantage=False))
    assert found[1].tolist() == pytest.approx([0.25, 0.75, 0.75, 0.75])


def test_a_turn_on_which_all_agree_carries_nothing() -> None:
    group = [episode([True, True], 2, [1, 1]), episode([True, False], 2, [2, 1])]
    found = objective.advantages(group, BY_TURN)
    assert found[0].tolist() == [0.0, pytest.approx(0.5 / (0.5**0.5 + EPSILON))]
    assert found[1][:2].tolist() == [0.0, 0.0]


def test_equal_rewards_from_different_turns_have_signal_by_turn_only() -> None:
    group = [episode([True, False], 2, [1, 1]), episode([False, True], 2, [1, 1])]
    assert not objective.has_signal(group, TrainingConfig())
    assert objective.has_signal(group, BY_TURN)
    assert not objective.has_signal([group[0], group[0]], BY_TURN)


def test_a_group_of_one_is_refused() -> None:
    for training in (TrainingConfig(), BY_TURN):
        with pytest.raises(AdvantageError, match="K ≥ 2"):
            objective.advantages(GROUP[:1], training)


@pytest.mark.parametrize("credit", ["episode", "turn"])
def test_token_rewards_sum_to_the_reward(credit: str) -> None:
    for each in GROUP:
        rewards = objective.token_rewards(each, credit)
        assert rewards.shape == (sum(each.mask),)
        assert float(rewards.sum()) == pytest.approx(each.reward)


def test_token_rewards_are_paid_where_they_were_earned() -> None:
    assert objective.token_rewards(GROUP[1], "episode").tolist() == [0.0, 0.0, 0.0, 1.0]
    assert objective.token_rewards(GROUP[1], "turn").tolist() == [0.5, 0.0, 0.0, 0.5]
    assert objective.token_rewards(GROUP[0], "turn").tolist() == [0.0, 0.5, 0.0]


@dataclass
class Recorder:
    """A learner that writes down what it is given."""

    training: TrainingConfig
    critic: None = None

    def update(self, rollouts: list[Rollout], advantages: list[torch.Tensor], _: object) -> dict[str, float]:
        self.given = list(zip(rollouts, advantages, strict=True))
        return {"loss": 1.0}


EQUAL = [episode([True], 1, [2]), episode([True], 1, [1])]
UNTOUCHED = [episode([], 2, [0]), episode([], 2, [0])]  # no room for a message: nothing sampled


def test_groups_without_signal_are_trained_on_unless_skipped() -> None:
    for skip, count in ((False, 6), (True, 4)):
        learner = Recorder(TrainingConfig(skip_zero_variance=skip))
        assert objective.update(learner, [EQUAL, GROUP, UNTOUCHED], lambda: None) == {"loss": 1.0}  # type: ignore[arg-type]
        assert len(learner.given) == count
        assert [advantage for each, advantage in learner.given if each in EQUAL] == [0.0] * (count - 4)


def test_nothing_left_to_train_on_is_no_update() -> None:
    learner = Recorder(TrainingConfig(skip_zero_variance=True))
    assert objective.update(learner, [EQUAL], lambda: None) == {}  # type: ignore[arg-type]
    assert objective.update(Recorder(TrainingConfig()), [UNTOUCHED], lambda: None) == {}  # type: ignore[arg-type]
