"""A key/value cache whose rows stand at different lengths, for transformers' attention layers.

transformers' own caches assume that every row of a batch is equally long (or left-padded to be). Episodes
are not: some wait for a tool while others generate. Here each row has its own length and a forward pass
names the rows and the places it writes, so rows come, go and grow without moving the others.

Slot 0 of each row is scratch: padding is written there and reads only that. The token at position p lies in
slot p + 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.cache_utils import Cache, CacheLayerMixin

ATTENTION = "rods_grouped"
_BLOCK = 128  # slots are reserved in steps of this many


@dataclass
class Window:
    """What one forward pass touches.

    Attributes:
        rows: [n] rows of the cache, one for each row of the batch.
        contiguous: the rows are 0…n-1, so that views serve instead of copies.
        slots: [n, L] slot of each token; 0 is padding.
        span: slots read, counted from 0.
    """

    rows: torch.Tensor
    contiguous: bool
    slots: torch.Tensor
    span: int

    @property
    def positions(self) -> torch.Tensor:
        """[n, L] position of each token in its sequence (0 for padding)."""
        return (self.slots - 1).clamp(min=0)

    def mask(self, dtype: torch.dtype) -> torch.Tensor:
        """[n, 1, L, span], added to the attention scores: 0 where a token may look, -inf elsewhere.

        A token looks at itself and what precedes it; padding looks at slot 0.
        """
        hidden = torch.arange(self.span, device=self.slots.device) > self.slots[:, :, None]
        hidden[:, :, 0] = self.slots != 0
        # Additive: attention would convert a bool mask in every layer.
        return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill(hidden, -torch.inf)[
            :, None
        ]


class RowCache(Cache):
    """Keys and values of many rows in each of `depth` layers. Call `aim` before each forward pass."""

    def __init__(self, depth: int) -> None:
        self._own = [_RowLayer() for _ in range(depth)]
        super().__init__(layers=list(self._own))

    def aim(self, window: Window) -> None:
        """Set what the next forward pass touches."""
        for layer in self._own:
            layer.window = window

    def keep(self, rows: torch.Tensor) -> None:
        """Row `rows[i]` becomes row i; what lies in other rows is given up."""
        for layer in self._own:
            layer.keys[: len(rows)] = layer.keys[rows]
            layer.values[: len(rows)] = layer.values[rows]


class _RowLayer(CacheLayerMixin):
    """One layer's share of a RowCache: keys and values of shape [rows, heads, slots, head size]."""

    window: Window

    def __init__(self) -> None:
        super().__init__()
        self.keys: torch.Tensor = torch.empty(0)
        self.values: torch.Tensor = torch.empty(0)

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.keys = key_states.new_zeros(0, key_states.shape[1], 0, key_states.shape[3])
        self.values = value_states.new_zeros(0, value_states.shape[1], 0, value_states.shape[3])
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the window's tokens and return keys and values of its rows, [n, heads, span, head size]."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        window = self.window
        needed = int(window.rows.max()) + 1
        self.keys = _reserve(self.keys, needed, window.span)
        self.values = _reserve(self.values, needed, window.span)
        index = window.rows[:, None]
        self.keys[index, :, window.slots] = key_states.transpose(1, 2)
        self.values[index, :, window.slots] = value_states.transpose(1, 2)
        if window.contiguous:
            count = len(window.rows)
            return self.keys[:count, :, : window.span], self.values[:count, :, : window.span]
        return self.keys[window.rows, :, : window.span], self.values[window.rows, :, : window.span]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.window.span, 0

    def get_seq_length(self) -> int:
        return self.window.span

    def get_max_length(self) -> int:
        return -1


def _reserve(store: torch.Tensor, rows: int, slots: int) -> torch.Tensor:
    """`store` itself, or a larger copy of it, that has at least so many rows and slots."""
    if store.shape[0] >= rows and store.shape[2] >= slots:
        return store
    slots = max(-(-slots // _BLOCK) * _BLOCK, store.shape[2])
    grown = store.new_zeros(max(rows, store.shape[0]), store.shape[1], slots, store.shape[3])
    grown[: store.shape[0], :, : store.shape[2]] = store
    return grown


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention with shared key/value heads that never copies them.

    transformers repeats keys and values for each query head when there is a mask, which at one query token a
    row costs more than the attention itself. Here the query heads of a group become further query tokens.

    Args:
        query: [n, query heads, L, head size].
        key, value: [n, key/value heads, T, head size].
        attention_mask: [n or 1, 1, L, T], bool or additive.

    Returns:
        [n, L, query heads, head size], None.
    """
    count, heads, length, size = query.shape
    shared = key.shape[1]
    groups = heads // shared
    folded = query.reshape(count, shared, groups * length, size)
    mask = attention_mask.repeat(1, 1, groups, 1)
    output = scaled_dot_product_attention(folded, key, value, attn_mask=mask, scale=scaling)
    return output.reshape(count, heads, length, -1).transpose(1, 2), None


AttentionInterface.register(ATTENTION, grouped_attention)
