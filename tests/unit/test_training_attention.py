"""Attention over sequences end to end: as each one alone, by softmax written out."""

from __future__ import annotations

import pytest
import torch

from rods.training.attention import packed_attention

LENGTHS = (3, 1, 5)
BOUNDS = torch.tensor([0, 3, 4, 9], dtype=torch.int32)


def tensors(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Four query heads on two key/value heads, nine tokens, fp64."""
    generator = torch.Generator().manual_seed(seed)
    shapes = ((1, 4, 9, 8), (1, 2, 9, 8), (1, 2, 9, 8))
    query, key, value = (torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes)
    return query.requires_grad_(), key.requires_grad_(), value.requires_grad_()


def written_out(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Token by token: softmax over the tokens of its own sequence up to itself."""
    out = torch.zeros(1, 9, 4, 8, dtype=torch.float64)
    for start, end in ((0, 3), (3, 4), (4, 9)):
        for token in range(start, end):
            for head in range(4):
                keys, values = (each[0, head // 2, start : token + 1] for each in (key, value))
                out[0, token, head] = (keys @ query[0, head, token] * 0.3).softmax(0) @ values
    return out


def test_values_and_gradients() -> None:
    parts = tensors(0)
    found, nothing = packed_attention(
        torch.nn.Module(), *parts, None, scaling=0.3, bounds=BOUNDS, lengths=LENGTHS
    )
    wanted = written_out(*parts)
    assert nothing is None
    torch.testing.assert_close(found, wanted)
    direction = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    ours = torch.autograd.grad((found * direction).sum(), parts)
    theirs = torch.autograd.grad((wanted * direction).sum(), parts)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_the_flash_kernel_is_called_as_it_wants() -> None:
    """On the meta device: shapes and arguments, forward and backward; nothing is computed, no GPU is needed."""
    query, key, value = (part.detach().to("meta", torch.bfloat16).requires_grad_() for part in tensors(0))
    found, _ = packed_attention(
        torch.nn.Module(),
        query,
        key,
        value,
        None,
        scaling=0.3,
        bounds=BOUNDS.to("meta"),
        lengths=LENGTHS,
    )
    assert (found.shape, found.dtype) == ((1, 9, 4, 8), torch.bfloat16)
    found.sum().backward()
    assert query.grad is not None
    assert key.grad is not None
    assert (query.grad.shape, key.grad.shape) == (query.shape, key.shape)


def test_a_sliding_window_is_refused() -> None:
    with pytest.raises(ValueError, match="sliding window of 4 tokens"):
        packed_attention(
            torch.nn.Module(),
            *tensors(0),
            None,
            scaling=0.3,
            bounds=BOUNDS,
            lengths=LENGTHS,
            sliding_window=4,
        )
