"""Attention over sequences that lie end to end: each sees itself only, and no padding is computed.

On a GPU in bf16 one variable-length flash kernel does it; elsewhere the sequences take their turn. Models use it
once they are set to the implementation `PACKED` and are called with `bounds` and `lengths`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional
from torch.nn.attention.varlen import varlen_attn
from transformers import AttentionInterface, AttentionMaskInterface

PACKED = "rods_packed"  # its name among transformers' attention implementations
_FLASH_TYPES = (torch.bfloat16, torch.float16)


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    *,
    scaling: float,
    bounds: torch.Tensor,
    lengths: tuple[int, ...],
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention within each sequence; transformers calls it for every layer.

    Args:
        module: the layer.
        query: 1×H×T×D, all sequences end to end.
        key: 1×H'×T×D, H' dividing H.
        value: as `key`.
        attention_mask: always None: causality and bounds say it all.
        scaling: of the scores.
        bounds: S+1 positions (int32) where the S sequences begin, and T.
        lengths: of the S sequences.
        sliding_window: None; a layer with one would see further back here than it should.

    Returns:
        1×T×H×D, and no attention weights.

    Raises:
        ValueError: a layer with a sliding window.
    """
    if sliding_window is not None:
        raise ValueError(f"a sliding window of {sliding_window} tokens")
    parts = query[0], key[0], value[0]
    if query.device.type != "cpu" and query.dtype in _FLASH_TYPES:
        q, k, v = (part.transpose(0, 1) for part in parts)
        mixed = _flash(q, k, v, bounds, max(lengths), scaling)
        return mixed.unsqueeze(0), None
    each = zip(*(part.split(lengths, dim=1) for part in parts), strict=True)
    mixed = torch.cat([_one(q, k, v, scaling) for q, k, v in each])
    return mixed.unsqueeze(0), None


def _flash(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bounds: torch.Tensor,
    longest: int,
    scaling: float,
) -> torch.Tensor:
    """All sequences at once: T×H×D in and out."""
    mixed = varlen_attn(
        query,
        key,
        value,
        bounds,
        bounds,
        longest,
        longest,
        scale=scaling,
        window_size=(-1, 0),  # any distance back, none ahead: causal
        enable_gqa=True,
    )
    assert isinstance(mixed, torch.Tensor)  # a pair only where the log-sum is asked for
    return mixed


def _one(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> torch.Tensor:
    """One sequence: H×L×D in, L×H×D out."""
    batched = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0)
    mixed = functional.scaled_dot_product_attention(*batched, is_causal=True, scale=scaling, enable_gqa=True)
    return mixed[0].transpose(0, 1)


AttentionInterface.register(PACKED, packed_attention)
# Without a mask function of its own, transformers would build a T×T mask for an unknown implementation.
AttentionMaskInterface.register(PACKED, lambda *_, **__: None)
