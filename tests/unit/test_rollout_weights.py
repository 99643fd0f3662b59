"""No tensor is missing, unknown or misshapen without a word."""

from __future__ import annotations

from pathlib import Path

import pytest
import random_policy
import torch

from rods.config import ModelConfig, RolloutConfig
from rods.rollout.engine import WeightsError, build
from rods.rollout.weights import checked, shapes

GOOD = random_policy.weights(random_policy.model(seed=1))
BAD = [
    (
        [item for item in GOOD if item[0] != "lm_head.weight"],
        r"1 of 25 tensors are missing, 'lm_head\.weight'",
    ),
    (GOOD[:-2], "2 of 25 tensors are missing"),
    ([], "25 of 25 tensors are missing"),
    ([*GOOD, ("lm_tail", torch.zeros(1))], "unknown tensor 'lm_tail'"),
    ([(name, tensor[:1]) for name, tensor in GOOD], r"'model\.embed_tokens\.weight' has shape \(1, 64\)"),
]


@pytest.mark.parametrize(("weights", "message"), BAD)
def test_weights_that_do_not_fit_are_refused(
    policy_dir: Path, weights: list[tuple[str, torch.Tensor]], message: str
) -> None:
    with pytest.raises(WeightsError, match=message):
        list(checked(weights, shapes(str(policy_dir))))
    engine = build(policy_dir, ModelConfig(), RolloutConfig(engine="hf"), 0)
    with pytest.raises(WeightsError, match=message):
        engine.update_weights(weights, version=1)
    assert engine.version == 0


def test_fitting_weights_pass_unchanged_and_one_at_a_time(policy_dir: Path) -> None:
    drawn: list[str] = []

    def source() -> object:
        for name, tensor in GOOD:
            drawn.append(name)
            yield name, tensor.requires_grad_()

    for count, (name, tensor) in enumerate(checked(source(), shapes(str(policy_dir))), start=1):  # type: ignore[arg-type]
        assert len(drawn) == count
        assert (name, tensor.requires_grad) == (drawn[-1], False)
        assert torch.equal(tensor, GOOD[count - 1][1])
    assert len(drawn) == len(GOOD)
