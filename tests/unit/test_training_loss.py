"""The loss: against TRL's GRPOTrainer on random tensors, and against values computed by hand."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rods.config import TrainingConfig
from rods.training.loss import LossError, Tokens, low_variance_kl, policy_loss, token_weights

CONFIG = TrainingConfig(kl_coefficient=0.05, entropy_coefficient=0.0)
LOSS_TYPE = {"seq-mean-token-mean": "grpo", "token-mean": "bnpo"}  # TRL's names for the two averages


def trl_loss(case: dict[str, torch.Tensor], config: TrainingConfig) -> torch.Tensor:
    """TRL's own `GRPOTrainer._compute_loss`; only its model call and its accelerator are stood in for."""
    trainer_module = pytest.importorskip("trl.trainer.grpo_trainer")
    trainer: Any = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *a, **k: (case["new"], case["entropy"], None),
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        importance_sampling_level="token",
        beta=config.kl_coefficient,
        args=SimpleNamespace(use_bias_correction_kl=False, delta=config.dual_clip, steps_per_generation=1),
        loss_type=LOSS_TYPE[config.loss_aggregation],
        epsilon_low=config.clip_low,
        epsilon_high=config.clip_high,
        use_vllm=True,
        vllm_importance_sampling_correction=True,
        model=SimpleNamespace(training=True),
        current_gradient_accumulation_steps=1,
        accelerator=SimpleNamespace(
            gather=lambda x: x, reduce=lambda x, reduction: x, num_processes=1, sync_gradients=True
        ),
        _entropy_bonus_enabled=config.entropy_coefficient > 0,
        use_adaptive_entropy=False,
        entropy_coef=config.entropy_coefficient,
        _metrics={"train": defaultdict(list)},
    )
    inputs = {
        "prompt_ids": torch.zeros(case["mask"].shape[0], 2, dtype=torch.long),
        "prompt_mask": torch.ones(case["mask"].shape[0], 2),
        "completion_ids": torch.zeros(case["mask"].shape, dtype=torch.long),
        "completion_mask": torch.ones_like(case["mask"]),
        "tool_mask": case["mask"],
        "advantages": case["advantages"],
        "old_per_token_logps": case["old"],
        "ref_per_token_logps": case["reference"],
        "importance_sampling_ratio": torch.exp(case["old"] - case["engine"]).clamp(max=config.importance_cap),
    }
    return trainer_module.GRPOTrainer._compute_loss(trainer, None, inputs)


def random_case(seed: int, spread: float) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    new = -normal(6, 11).abs()
    mask = (torch.rand(6, 11, generator=generator) < 0.6).double()
    mask[:, 0] = 1  # no empty rows: TRL's metrics would divide by zero
    return {
        "new": new.requires_grad_(),
        "old": new.detach() + spread * normal(6, 11),
        "engine": new.detach() + spread * normal(6, 11),
        "reference": new.detach() + spread * normal(6, 11),
        "entropy": normal(6, 11).abs(),
        "advantages": normal(6),
        "mask": mask,
    }


def our_loss(case: dict[str, torch.Tensor], config: TrainingConfig) -> torch.Tensor:
    mask = case["mask"].bool()
    counts = mask.sum(1)
    weights = torch.tensor(token_weights(counts.tolist(), config.loss_aggregation), dtype=torch.float64)
    tokens = Tokens(
        advantages=case["advantages"].repeat_interleave(counts),
        weights=weights.repeat_interleave(counts),
        old=case["old"][mask],
        engine=case["engine"][mask],
        reference=case["reference"][mask],
    )
    return policy_loss(case["new"][mask], case["entropy"][mask], tokens, config)[0]


@pytest.mark.parametrize("aggregation", ["seq-mean-token-mean", "token-mean"])
@pytest.mark.parametrize("dual_clip", [None, 10.0, 1.5])
@pytest.mark.parametrize("spread", [0.05, 1.0])
def test_equals_trl_in_value_and_gradient(aggregation: str, dual_clip: float | None, spread: float) -> None:
    config = replace(CONFIG, loss_aggregation=aggregation, dual_clip=dual_clip)
    for seed in range(5):
        case = random_case(seed, spread)
        theirs, ours = trl_loss(case, config), our_loss(case, config)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)
        (their_gradient,) = torch.autograd.grad(theirs, case["new"])
        (our_gradient,) = torch.autograd.grad(ours, case["new"])
        torch.testing.assert_close(our_gradient, their_gradient, rtol=0, atol=1e-9)


def test_entropy_bonus_equals_trls_token_mean() -> None:
    config = replace(CONFIG, loss_aggregation="token-mean", entropy_coefficient=0.01)
    case = random_case(3, 0.3)
    torch.testing.assert_close(our_loss(case, config), trl_loss(case, config), rtol=0, atol=1e-9)


def one_token(ratio: float, advantage: float, engine_gap: float = 0.0) -> Tokens:
    """A token whose new log-probability −1 stands in `ratio` to the old one."""
    old = torch.tensor([-1.0 - math.log(ratio)], dtype=torch.float64)
    return Tokens(torch.tensor([advantage]).double(), torch.ones(1).double(), old, old - engine_gap, None)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "low", "high"),
    [
        (1.0, 2.0, -2.0, False, False),
        (1.2, 2.0, -2.4, False, False),
        (1.5, 2.0, -2.56, False, True),  # 1.28 · 2
        (0.5, 2.0, -1.0, False, False),
        (0.5, -2.0, 1.6, True, False),  # 0.8 · 2
        (1.5, -2.0, 3.0, False, False),
        (50.0, -2.0, 20.0, False, False),  # dual clip: 10 · 2
    ],
)
def test_clipping_by_hand(ratio: float, advantage: float, loss: float, low: bool, high: bool) -> None:
    value, terms = policy_loss(
        torch.tensor([-1.0]).double(), torch.zeros(1), one_token(ratio, advantage), TrainingConfig()
    )
    assert value.item() == pytest.approx(loss)
    assert (bool(terms.clipped_low), bool(terms.clipped_high)) == (low, high)
    assert terms.ratio.item() == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("gap", "weight"), [(0.0, 1.0), (math.log(1.5), 1.5), (math.log(5), 2.0), (-1.0, math.exp(-1))]
)
def test_importance_weight_is_truncated_above_only(gap: float, weight: float) -> None:
    new = torch.tensor([-1.0]).double()
    value, _ = policy_loss(new, torch.zeros(1), one_token(1.0, 1.0, gap), TrainingConfig())
    assert value.item() == pytest.approx(-weight)
    off, _ = policy_loss(new, torch.zeros(1), one_token(1.0, 1.0, gap), TrainingConfig(importance_cap=None))
    assert off.item() == pytest.approx(-1.0)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8).filter(lambda counts: sum(counts) > 0))
def test_token_weights_sum_to_the_share_of_sequences_that_have_tokens(counts: list[int]) -> None:
    def total(aggregation: str) -> float:
        return sum(n * w for n, w in zip(counts, token_weights(counts, aggregation), strict=True))

    assert total("token-mean") == pytest.approx(1)
    assert total("seq-mean-token-mean") == pytest.approx(sum(n > 0 for n in counts) / len(counts))


@given(st.floats(-5, 5), st.floats(-5, 5))
def test_kl_estimate_is_never_negative(new: float, reference: float) -> None:
    kl = low_variance_kl(torch.tensor(new).double(), torch.tensor(reference).double()).item()
    assert kl >= -1e-12


def test_kl_estimate_by_hand() -> None:
    new, reference = torch.tensor([-1.0, -1.0]).double(), torch.tensor([-1.0, -2.0]).double()
    assert low_variance_kl(new, reference).tolist() == pytest.approx(
        [0.0, math.exp(-1)]
    )  # e^d − d − 1, d = −1


@pytest.mark.parametrize(
    ("counts", "aggregation", "said"), [([0, 0], "token-mean", "none in 2"), ([1], "mean", "'mean'")]
)
def test_undefined_averages_are_refused(counts: list[int], aggregation: str, said: str) -> None:
    with pytest.raises(LossError, match=said):
        token_weights(counts, aggregation)
