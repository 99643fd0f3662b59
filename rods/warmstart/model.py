"""The tiny policy: Qwen3's architecture at 0.92M parameters, so that every engine that runs Qwen3 runs it."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

MAX_LENGTH = 2048


def new(vocabulary: int, end_id: int, pad_id: int) -> Qwen3ForCausalLM:
    """A fresh model, float32, drawn from torch's global random state.

    Output projections start at zero, so that each layer starts as the identity; the other matrices start with
    standard deviation 0.5 / √(width), the embedding with 0.02.
    """
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=384,
        max_position_embeddings=MAX_LENGTH,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end_id,
        pad_token_id=pad_id,
    )
    model = Qwen3ForCausalLM(config).float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                parameter.zero_()
            elif name.endswith("proj.weight"):
                parameter.normal_(std=0.5 / math.sqrt(config.hidden_size))
    return model


def export(model: Qwen3ForCausalLM, folder: Path) -> None:
    """Write config.json and model.safetensors in float16; the model itself stays as it is."""
    halved = Qwen3ForCausalLM(model.config).half()
    halved.load_state_dict(model.state_dict())
    halved.save_pretrained(folder)
