"""What an update reports, summed over micro-batches and ranks before anything is divided."""

from __future__ import annotations

import torch
import torch.distributed as dist

from rods.training import distributed
from rods.training.loss import Terms, Tokens

_SUMS = ("loss", "kl", "entropy", "clip_fraction_low", "clip_fraction_high", "logprob_gap", "tokens")


class Meter:
    """Collects one update's metrics over its optimizer steps.

    Args:
        mini_batches: optimizer steps of the update.
    """

    def __init__(self, mini_batches: int) -> None:
        self._mini_batches = mini_batches
        self._totals = dict.fromkeys(_SUMS, 0.0)
        self._ratio_max = 0.0
        self._grad_norms: list[float] = []
        self._rate = 0.0

    def start(self, device: torch.device) -> None:
        """Begin an optimizer step."""
        self._sums = torch.zeros(len(_SUMS), dtype=torch.float64, device=device)
        self._peak = torch.zeros(1, device=device)

    def add(self, loss: torch.Tensor, entropy: torch.Tensor, tokens: Tokens, terms: Terms) -> None:
        """Count a micro-batch: its share of the loss and its N sampled tokens."""
        low, high = terms.clipped_low.sum(), terms.clipped_high.sum()
        gap = (tokens.engine - tokens.old).abs().sum()
        count = torch.tensor(terms.ratio.numel(), device=loss.device)
        self._sums += torch.stack([loss, terms.kl.sum(), entropy.sum(), low, high, gap, count]).double()
        if terms.ratio.numel():
            self._peak = torch.maximum(self._peak, terms.ratio.max().float())

    def close(self) -> float:
        """Sum over ranks what `add` counted since `start`; returns the mini-batch's loss. Collective."""
        sums = distributed.reduce(self._sums, dist.ReduceOp.SUM).tolist()
        self._ratio_max = max(self._ratio_max, distributed.reduce(self._peak, dist.ReduceOp.MAX).item())
        for name, value in zip(_SUMS, sums, strict=True):
            self._totals[name] += value
        return sums[0]

    def stepped(self, grad_norm: float, rate: float) -> None:
        """Note the gradient norm before clipping and the learning rate of the optimizer step just taken."""
        self._grad_norms.append(grad_norm)
        self._rate = rate

    def summary(self) -> dict[str, float]:
        """Metrics of the whole update: means over sampled tokens; loss and grad_norm over optimizer steps."""
        totals = dict(self._totals)
        tokens, loss = totals.pop("tokens"), totals.pop("loss")
        means = {name: value / tokens for name, value in totals.items()}
        return means | {
            "loss": loss / self._mini_batches,
            "clip_fraction": means["clip_fraction_low"] + means["clip_fraction_high"],
            "ratio_max": self._ratio_max,
            "grad_norm": sum(self._grad_norms) / len(self._grad_norms),
            "learning_rate": self._rate,
        }
