"""The figure `update`: what TRL is given is what we train on, and unequal work is not compared."""

from __future__ import annotations

from typing import Any

import pytest
from rollout_examples import episode

from benchmarks.training_update import Rounds, UnequalWorkError, figure, refuse_unequal
from benchmarks.training_update_sides import replay

GROUPS = [
    [episode([True], 1, [2]), episode([False], 1, [1])],
    [episode([False, True], 2, [1, 2]), episode([True, True], 2, [3, 1])],
]


def test_every_rollout_is_replayed_once_whatever_the_order_of_prompts() -> None:
    told = replay(GROUPS)(["1", "0", "0", "1"], None)
    wanted = [GROUPS[1][0], GROUPS[0][0], GROUPS[0][1], GROUPS[1][1]]
    for place, rollout in enumerate(wanted):
        assert tuple(told["prompt_ids"][place] + told["completion_ids"][place]) == rollout.token_ids
        assert sum(told["env_mask"][place]) == sum(rollout.mask)
        assert told["env_mask"][place][0] == 1  # the completion begins with what was sampled
        assert told["earned"][place] == rollout.reward


def answer(norm: float, seconds: list[float]) -> dict[str, Any]:
    return {"grad_norm": norm, "cpu_s": seconds}


def test_sides_with_other_gradients_are_not_compared() -> None:
    refuse_unequal(Rounds([answer(0.1, [])], [answer(0.1001, [])]))
    with pytest.raises(UnequalWorkError, match=r"0\.2"):
        refuse_unequal(Rounds([answer(0.1, [])], [answer(0.2, [])]))


def test_a_ratio_above_one_means_that_ours_is_better() -> None:
    rounds = Rounds([answer(0.1, [1.0, 2.0]), answer(0.1, [3.0])], [answer(0.1, [4.0])])
    slower = figure(rounds, lambda each: each["cpu_s"], "s")
    assert (slower.ours, slower.ours_spread, slower.ratio) == (2.0, (1.0, 3.0), 2.0)
    assert figure(rounds, lambda each: each["cpu_s"], "1/s").ratio == 0.5
