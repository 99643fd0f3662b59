"""A module whose weights are optimized: AdamW with warm-up in a DeepSpeed engine, clipped, refused when it diverges.

Policy and critic are trained by it alike. Gradients add up over micro-batches until `step`; a loss is a share of
a sum over the whole mini-batch, over all ranks.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.distributed as dist
from torch.optim.lr_scheduler import LambdaLR

from rods.config import TrainingConfig
from rods.errors import RodsError
from rods.training import distributed


class DivergedError(RodsError):
    """A loss or gradient that is not finite: continue from a checkpoint."""


class Optimized:
    """`module` in a DeepSpeed engine.

    Args:
        module: on the CPU; the engine moves it to this rank's device.
        training: AdamW's settings, gradient clip and ZeRO stage.
        dtype: of the weights.
        learning_rate: reached after the warm-up.
        warmup_steps: optimizer steps over which the rate rises linearly.

    Attributes:
        engine: DeepSpeed's; calling it is the module's forward.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        training: TrainingConfig,
        dtype: str,
        learning_rate: float,
        warmup_steps: int,
    ) -> None:
        self._module, self._clip_at = module, training.gradient_clip
        optimizer = torch.optim.AdamW(
            module.parameters(),
            lr=learning_rate,
            betas=training.adam_betas,
            weight_decay=training.weight_decay,
        )
        schedule = LambdaLR(optimizer, lambda done: min(1.0, (done + 1) / (warmup_steps + 1)))
        self.engine: Any = distributed.initialize(module, optimizer, schedule, training, dtype)
        self._deepspeed_clips = distributed.reports_norm(training, dtype)
        if not self._deepspeed_clips:
            optimizer.register_step_pre_hook(self._clip)
        self.engine.train()

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradient of this rank's micro-batch."""
        # DeepSpeed averages gradients over ranks; losses are shares of a sum.
        self.engine.backward(loss * dist.get_world_size())

    def step(self, loss: float) -> tuple[float, float]:
        """Apply the gradients since the last step.

        Args:
            loss: of the mini-batch, over all ranks.

        Returns:
            the gradient norm before clipping, and the learning rate.

        Raises:
            DivergedError: loss or norm is not finite.
        """
        self._refuse_divergence("loss", loss)
        rate = self.engine.get_lr()[0]
        self.engine.step()
        norm = float(self.engine.get_global_grad_norm() if self._deepspeed_clips else self._norm)
        self._refuse_divergence("gradient norm", norm)
        return norm, rate

    def _clip(self, *_: Any) -> None:
        """Runs inside the optimizer's step, when gradients are summed over ranks."""
        self._norm = torch.nn.utils.clip_grad_norm_(self._module.parameters(), self._clip_at)

    def _refuse_divergence(self, what: str, value: float) -> None:
        if not math.isfinite(value):
            raise DivergedError(
                f"{type(self._module).__name__}, optimizer step {self.engine.global_steps}: expected a finite "
                f"{what}, found {value}; the weights are spoilt: lower the learning rate and resume from the last "
                "checkpoint"
            )


def warmup_steps(fraction: float, optimizer_steps: int) -> int:
    """The warm-up's length: `fraction` of all planned optimizer steps, rounded up."""
    return math.ceil(fraction * optimizer_steps)
