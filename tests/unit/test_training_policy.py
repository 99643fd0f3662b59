"""The policy's shortcut to log-probabilities against the model's own logits."""

from __future__ import annotations

from pathlib import Path

import pytest
import random_policy
import torch
from transformers import GraniteConfig, GraniteForCausalLM, PreTrainedModel, Qwen3ForCausalLM

from rods.training import policy
from rods.training.attention import PACKED
from rods.training.batch import lay
from rods.training.policy import Policy, UnsupportedModelError, chunks_for

SEQUENCES = [(5, 9, 200, 31, 7, 7, 100), (44, 8, 2), (17, 250, 3, 3)]
MASKS = [(0, 1, 0, 0, 1, 1, 1), (0, 0, 1), (0, 1, 0, 1)]


def expected(model: PreTrainedModel) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequence by sequence, from full logits and transformers' own attention."""
    logprobs, entropies = [], []
    model.set_attn_implementation("sdpa")
    for sequence, mask in zip(SEQUENCES, MASKS, strict=True):
        table = model(torch.tensor([sequence])).logits[0].float().log_softmax(-1)
        for position in range(1, len(sequence)):
            if mask[position]:
                row = table[position - 1]
                logprobs.append(row[sequence[position]])
                entropies.append(-(row.exp() * row).sum())
    model.set_attn_implementation(PACKED)
    return torch.stack(logprobs), torch.stack(entropies)


@pytest.mark.parametrize("chunks", [1, 3, 20])  # 20: more pieces than tokens, as another rank may need
def test_logprobs_entropies_and_gradients(chunks: int) -> None:
    model = random_policy.model(0)
    parameters = list(model.parameters())
    wanted = expected(model)
    wanted_gradients = torch.autograd.grad(sum(part.sum() for part in wanted), parameters)
    packed = lay(SEQUENCES, MASKS, torch.device("cpu"))
    found = Policy(model, entropy_gradient=True)(packed, chunks)
    gradients = torch.autograd.grad(sum(part.sum() for part in found), parameters)
    for ours, theirs in zip((*found, *gradients), (*wanted, *wanted_gradients), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def packed_model() -> Qwen3ForCausalLM:
    """The random policy with packed attention, as `load_model` sets it."""
    model = random_policy.model(0)
    model.set_attn_implementation(PACKED)
    return model


def test_entropy_carries_no_gradient_unless_asked() -> None:
    packed = lay(SEQUENCES, MASKS, torch.device("cpu"))
    logprobs, entropy = Policy(packed_model(), entropy_gradient=False)(packed, 1)
    assert logprobs.requires_grad
    assert not entropy.requires_grad


def test_a_micro_batch_without_tokens_still_reaches_every_weight() -> None:
    # Otherwise a rank that ran out of rollouts would skip collectives that the others wait in.
    model = packed_model()
    packed = lay([], [], torch.device("cpu"))
    logprobs, _ = Policy(model, entropy_gradient=False)(packed, 1)
    assert logprobs.shape == (0,)
    logprobs.sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert not parameter.grad.any()


@pytest.mark.parametrize("tied", [True, False])
def test_the_output_head_is_always_named(tied: bool) -> None:
    model = random_policy.model(0, tied)
    named = dict(Policy(model, entropy_gradient=False).named_weights())
    assert named.keys() == model.state_dict().keys()
    assert torch.equal(named["lm_head.weight"], model.lm_head.weight)


def test_models_that_scale_their_logits_are_refused(tmp_path: Path) -> None:
    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    config = GraniteConfig(**sizes, num_attention_heads=2, num_key_value_heads=2, logits_scaling=4.0)
    config.initializer_range = 0.5
    GraniteForCausalLM(config).save_pretrained(tmp_path)
    with pytest.raises(UnsupportedModelError, match="GraniteForCausalLM"):
        policy.load(tmp_path, "float32", False)


def test_chunks() -> None:
    assert chunks_for(0, 151_936) == 1
    assert chunks_for(7_000, 1024) == 1
    assert chunks_for(32_768, 151_936) == 38
