"""The architectures that the paper trains, as tiny random models: load → update → export → reload."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import random_policy
import torch
from learner_examples import TRAINING, VOCABULARY, learner, plain_update, samples
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

from rods.training import policy
from rods.training.policy import UnsupportedModelError, WeightsMissingError

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.15,
    "eos_token_id": 2,
    "bos_token_id": 1,
    "pad_token_id": 0,
}
# As Llama-3.1-8B has it.
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
CONFIGS = {
    "Qwen3": Qwen3Config(**SIZES, head_dim=32, tie_word_embeddings=True),
    "Qwen2.5": Qwen2Config(**SIZES, tie_word_embeddings=False),
    "Llama-3.1": LlamaConfig(**SIZES, rope_parameters=LLAMA3_ROPE, tie_word_embeddings=False),
}
SMALL = replace(TRAINING, learning_rate=1e-4)


def folder_of(config: PreTrainedConfig, folder: Path) -> Path:
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    random_policy.tokenizer().save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("recompute", [False, True])
def test_load_update_export_reload(name: str, recompute: bool, tmp_path: Path) -> None:
    start = folder_of(CONFIGS[name], tmp_path / "start")
    training = replace(SMALL, gradient_checkpointing=recompute)
    trained = learner(start, training)
    assert trained.policy.model.is_gradient_checkpointing is recompute
    rollouts, advantages = samples(6)
    told = trained.update(rollouts, advantages)
    expected, norm = plain_update(start, rollouts, advantages, training)
    assert told["grad_norm"] == pytest.approx(norm, rel=1e-4)
    trained.export(tmp_path / "end")
    reloaded = AutoModelForCausalLM.from_pretrained(tmp_path / "end", dtype=torch.float32)
    assert type(reloaded).__name__ == CONFIGS[name].architectures[0]
    assert reloaded.config._attn_implementation == "sdpa"  # ours is for training alone
    for key, tensor in reloaded.state_dict().items():
        torch.testing.assert_close(tensor, expected[key], rtol=0, atol=5e-6)
    sequence = rollouts[0].token_ids
    again = learner(tmp_path / "end", training)
    torch.testing.assert_close(again.score([sequence]), trained.score([sequence]), rtol=0, atol=0)


def test_a_sliding_window_is_refused(tmp_path: Path) -> None:
    config = MistralConfig(**SIZES, sliding_window=8)
    with pytest.raises(UnsupportedModelError, match="sliding window"):
        policy.load_model(folder_of(config, tmp_path), "float32")


def test_missing_weights_are_named(tmp_path: Path) -> None:
    CONFIGS["Qwen3"].save_pretrained(tmp_path)
    with pytest.raises(WeightsMissingError, match=r"expected a Hugging Face folder .*model\.safetensors"):
        policy.load_model(tmp_path, "float32")
    with pytest.raises(WeightsMissingError, match="hf download"):
        policy.load_model(tmp_path / "nowhere", "float32")
