"""One supervised stage: next-token loss on demonstrations, Muon for the matrices and AdamW for the rest.

The budget is in tokens, not in minutes: the same seed then gives the same policy on a fast or a busy
machine.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy
from transformers import Qwen3ForCausalLM

from rods.warmstart.batches import Batch, Row, batches
from rods.warmstart.muon import Muon

BATCH_TOKENS = 2048
_WARMUP_STEPS = 100
_DECAY_SHARE = 0.3
_LOWEST_RATE = 0.05


@dataclass(frozen=True)
class Progress:
    """Where a stage is.

    Attributes:
        step: optimizer steps done.
        tokens: tokens with a loss weight seen so far.
        loss: mean negative log-likelihood of the assistant's tokens, nats, since the last report.
        seconds: since the stage began, on the wall.
    """

    step: int
    tokens: int
    loss: float
    seconds: float


def train(
    model: Qwen3ForCausalLM,
    rows: Callable[[float], Iterator[Row]],
    tokens: int,
    rng: random.Random,
    report: Callable[[Progress], None],
    report_every: int = 50,
) -> None:
    """Train in place until `tokens` tokens have been seen.

    Args:
        model: float32.
        rows: the stream to draw from at a given share of the budget, 0 to 1.
        tokens: the budget: tokens with a loss weight, padding excluded.
        rng: shuffles batches.
        report: called every `report_every` steps and at the end.
    """
    model.train()
    optimizers = _optimizers(model)
    seen, step, losses, start = 0, 0, [], time.monotonic()
    stream = batches(lambda: rows(seen / tokens), BATCH_TOKENS, rng)
    while seen < tokens:
        batch = next(stream)
        _set_rates(optimizers, rate_scale(step, seen / tokens))
        losses.append(_step(model, optimizers, batch))
        seen += int((batch.weights != 0).sum())
        step += 1
        if step % report_every == 0 or seen >= tokens:
            report(Progress(step, seen, sum(losses) / len(losses), time.monotonic() - start))
            losses.clear()
    model.eval()


def rate_scale(step: int, share: float) -> float:
    """Factor on the learning rates: linear warm-up, then flat, then linear decay over the last 30%."""
    warmup = min(1.0, (step + 1) / _WARMUP_STEPS)
    decay = min(1.0, max(_LOWEST_RATE, (1 - share) / _DECAY_SHARE))
    return warmup * decay


def _step(model: Qwen3ForCausalLM, optimizers: list[torch.optim.Optimizer], batch: Batch) -> float:
    """One update; returns the mean loss of the assistant's tokens before it."""
    losses, weights = token_losses(model, batch)
    ((losses * weights).sum() / weights.sum()).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return float(losses.detach()[weights == 1].mean())


def token_losses(model: Qwen3ForCausalLM, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Negative log-likelihood and weight of each token that has a weight (flat, row by row).

    Rows are padded on the right, so causal attention needs no mask for them.
    """
    hidden = model.model(input_ids=batch.ids[:, :-1], use_cache=False).last_hidden_state
    weights = batch.weights[:, 1:]
    chosen = weights != 0
    losses = cross_entropy(model.lm_head(hidden[chosen]), batch.ids[:, 1:][chosen], reduction="none")
    return losses, weights[chosen]


def _optimizers(model: Qwen3ForCausalLM) -> list[torch.optim.Optimizer]:
    matrices = [p for name, p in model.named_parameters() if name.endswith("proj.weight")]
    others = [p for name, p in model.named_parameters() if not name.endswith("proj.weight")]
    found: list[torch.optim.Optimizer] = [
        Muon(matrices, lr=0.02, weight_decay=0.01),
        torch.optim.AdamW(others, lr=3e-3, betas=(0.9, 0.95), weight_decay=0.0),
    ]
    for optimizer in found:
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
    return found


def _set_rates(optimizers: list[torch.optim.Optimizer], scale: float) -> None:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * scale
