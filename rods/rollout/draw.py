"""Drawing tokens, reproducibly: the draw of a request depends on its seed and the place in its message only.

One uniform number per token, from a counter-based generator keyed by the request's seed, goes through the
inverse of the cumulative distribution. Which other requests share the batch does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from rods.rollout.engine import Sampling

_SEED_BITS = 64


def uniforms(seed: int, count: int) -> list[float]:
    """`count` numbers in [0, 1) that `seed` (taken modulo 2⁶⁴) determines."""
    return np.random.Generator(np.random.Philox(key=seed % 2**_SEED_BITS)).random(count).tolist()


def draw(
    logits: torch.Tensor, settings: Sequence[Sampling], uniform: Sequence[float]
) -> tuple[list[int], list[float]]:
    """One token per row.

    Args:
        logits: [n, vocabulary].
        settings: of each row; temperature 0 takes the most likely token.
        uniform: of each row, in [0, 1).

    Returns:
        tokens, and their log-probabilities at temperature 1 without the top_p cut.
    """
    logits = logits.float()
    temperature = torch.tensor([s.temperature for s in settings], device=logits.device)
    greedy = temperature == 0
    weights = torch.softmax(logits / torch.where(greedy, 1.0, temperature)[:, None], -1)
    top_p = torch.tensor([s.top_p for s in settings], device=logits.device)
    if bool((top_p < 1).any()):
        weights = _nucleus(weights, top_p)
    # float64: in float32 the cumulative sum of a large vocabulary misses unlikely tokens.
    cumulative = weights.double().cumsum(-1)
    target = torch.tensor(uniform, dtype=torch.float64, device=logits.device)[:, None] * cumulative[:, -1:]
    drawn = torch.searchsorted(cumulative, target, right=True)[:, 0].clamp(max=logits.shape[1] - 1)
    tokens = torch.where(greedy, logits.argmax(-1), drawn)
    logprobs = torch.log_softmax(logits, -1).gather(1, tokens[:, None])[:, 0]
    return tokens.tolist(), logprobs.tolist()


def _nucleus(weights: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Zero all but the smallest set of most likely tokens whose weight reaches `top_p` ([n]), in each row."""
    ordered, index = weights.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered
    ordered = torch.where((before < top_p[:, None]) | (top_p[:, None] >= 1), ordered, 0.0)
    return torch.zeros_like(weights).scatter(1, index, ordered)
