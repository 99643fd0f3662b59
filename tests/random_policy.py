"""A tiny policy with random weights and a byte-level tokenizer, so that tests need no shipped model."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKUP = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")


def tokenizer() -> PreTrainedTokenizerFast:
    """One token per byte, plus the chat format's markup; 263 tokens."""
    vocabulary = [*SPECIAL, *MARKUP, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    raw = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(vocabulary)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    raw.add_tokens([AddedToken(token, special=False, normalized=False) for token in MARKUP])
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        clean_up_tokenization_spaces=False,
    )


def model(seed: int, tied: bool = True) -> Qwen3ForCausalLM:
    """Two layers, four query heads on two key/value heads; sharp enough that greedy choices are not ties."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=263,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=96,
        max_position_embeddings=512,
        tie_word_embeddings=tied,
        initializer_range=0.15,
        eos_token_id=2,
        pad_token_id=0,
    )
    return Qwen3ForCausalLM(config).eval()


def save(folder: Path, seed: int = 0, tied: bool = True) -> Path:
    """Write policy and tokenizer as a Hugging Face folder; returns it."""
    model(seed, tied).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def weights(policy: Qwen3ForCausalLM) -> list[tuple[str, torch.Tensor]]:
    """All tensors by Hugging Face name, `lm_head.weight` among them even when tied."""
    return [(name, tensor.detach().clone()) for name, tensor in policy.state_dict().items()]
