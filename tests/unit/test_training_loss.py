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
from rods.training.loss import LossError, Terms, Tokens, low_variance_kl, policy_loss, token_weights

CONFIG = TrainingConfig(kl_coefficient=0.05, entropy_coefficient=0.0)
LOSS_TYPE = {"seq-mean-token-mean": "grpo", "token-mean": "bnpo"}  # TRL's names for the two averages
Case = dict[str, torch.Tensor]


def trl_loss(
    case: Case, config: TrainingConfig, loss_type: str | None = None, tokens: float = 0.0, parts: int = 1
) -> torch.Tensor:
    """TRL's own `GRPOTrainer._compute_loss`; only its model call and its accelerator are stood in for.

    Args:
        case: a micro-batch.
        config: our settings, which are given to TRL under its names.
        loss_type: TRL's; by default the one of the same average.
        tokens: sampled ones in all micro-batches, for `loss_type` dapo.
        parts: micro-batches an optimizer step.
    """
    trainer_module = pytest.importorskip("trl.trainer.grpo_trainer")
    trainer: Any = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *a, **k: (case["new"], case["entropy"], None),
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        importance_sampling_level="token",
        beta=config.kl_coefficient,
        args=SimpleNamespace(
            use_bias_correction_kl=False, delta=config.dual_clip, steps_per_generation=parts
        ),
        loss_type=loss_type or LOSS_TYPE[config.loss_aggregation],
        epsilon_low=config.clip_low,
        epsilon_high=config.clip_high,
        use_vllm=config.importance_cap is not None,
        vllm_importance_sampling_correction=True,
        model=SimpleNamespace(training=True),
        current_gradient_accumulation_steps=parts,
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
        "importance_sampling_ratio": torch.exp(case["old"] - case["engine"]).clamp(
            max=config.importance_cap or math.inf
        ),
        "num_items_in_batch": torch.tensor(tokens),
    }
    loss = trainer_module.GRPOTrainer._compute_loss(trainer, None, inputs)
    case["clipped_low"], case["clipped_high"] = (
        torch.tensor(trainer._metrics["train"].get(f"clip_ratio/{side}_mean", [math.nan]))
        for side in ("low", "high")
    )
    return loss


def random_case(seed: int, spread: float) -> Case:
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


def our_terms(
    case: Case, config: TrainingConfig, counts: list[int] | None = None, rows: slice = slice(None)
) -> tuple[torch.Tensor, Terms]:
    """Our loss of the case's `rows`, as a share of a mini-batch whose sequences have `counts` tokens."""
    mask = case["mask"].bool()
    own = mask.sum(1)
    weights = token_weights(own.tolist() if counts is None else counts, config.loss_aggregation)[rows]
    # A row of advantages per token, or one number a row.
    advantages = case["advantages"] if case["advantages"].dim() == 2 else case["advantages"].unsqueeze(1)
    tokens = Tokens(
        advantages=advantages.expand_as(mask)[mask],
        weights=torch.tensor(weights, dtype=torch.float64).repeat_interleave(own),
        old=case["old"][mask],
        engine=case["engine"][mask],
        reference=case["reference"][mask] if config.kl_coefficient else None,
    )
    return policy_loss(case["new"][mask], case["entropy"][mask], tokens, config)


def our_loss(case: Case, config: TrainingConfig) -> torch.Tensor:
    return our_terms(case, config)[0]


OPTIONS: list[dict[str, Any]] = [
    {},
    {"kl_coefficient": 0.0},
    {"importance_cap": None},
    {"importance_cap": 1.0},
    {"dual_clip": None},
    {"dual_clip": 1.5},
    {"clip_low": 0.1, "clip_high": 0.1},
    {"clip_low": 0.9, "clip_high": 3.0, "dual_clip": 5.0},
    {"kl_coefficient": 1.0, "importance_cap": 5.0, "dual_clip": None},
]


@pytest.mark.parametrize("aggregation", LOSS_TYPE)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("spread", [0.05, 1.0])
def test_equals_trl_in_value_gradient_and_clip_fractions(
    aggregation: str, options: dict[str, Any], spread: float
) -> None:
    config = replace(CONFIG, loss_aggregation=aggregation, **options)
    for seed in range(5):
        case = random_case(seed, spread)
        theirs, (ours, terms) = trl_loss(case, config), our_terms(case, config)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)
        (their_gradient,) = torch.autograd.grad(theirs, case["new"])
        (our_gradient,) = torch.autograd.grad(ours, case["new"])
        torch.testing.assert_close(our_gradient, their_gradient, rtol=0, atol=1e-9)
        assert terms.clipped_low.float().mean().item() == pytest.approx(case["clipped_low"].item())
        if config.dual_clip is None:  # TRL counts after its own upper bound
            assert terms.clipped_high.float().mean().item() == pytest.approx(case["clipped_high"].item())


@pytest.mark.parametrize("aggregation", LOSS_TYPE)
def test_equals_trl_with_an_advantage_per_token(aggregation: str) -> None:
    config = replace(CONFIG, loss_aggregation=aggregation)
    for seed in range(5):
        case = random_case(seed, 0.5)
        case["advantages"] = case["advantages"].unsqueeze(1) * case["entropy"]
        torch.testing.assert_close(our_loss(case, config), trl_loss(case, config), rtol=0, atol=1e-9)


def test_shares_of_micro_batches_add_up_as_trls_over_a_whole_batch() -> None:
    config = replace(CONFIG, loss_aggregation="token-mean")
    cases = [random_case(seed, 0.5) for seed in range(3)]
    counts = [int(count) for case in cases for count in case["mask"].sum(1)]
    for number, case in enumerate(cases):
        rows = slice(6 * number, 6 * number + 6)
        ours, _ = our_terms(case, config, counts, rows)
        theirs = trl_loss(case, config, "dapo", float(sum(counts)), parts=3)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)


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
