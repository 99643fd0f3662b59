"""Muon in float32: gradient momentum, orthogonalised, for the matrices of a small model.

`torch.optim.Muon` computes in bfloat16, which a CPU without hardware for it emulates: 0.14 s a step for
the tiny policy here against 0.065 s for this one, with a whole forward and backward pass at 0.29 s.
Otherwise the two agree (Nesterov momentum, the same quintic iteration, the "original" learning-rate
adjustment).
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

_A, _B, _C = 3.4445, -4.775, 2.0315
_ITERATIONS = 5


class Muon(torch.optim.Optimizer):
    """See the module.

    Args:
        params: matrices.
        lr: learning rate; scaled by √(rows/columns) for tall matrices.
        momentum: of the gradient's running mean.
        weight_decay: decoupled, times `lr`.
    """

    def __init__(
        self,
        params: Iterable[torch.nn.Parameter],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group["lr"], group["momentum"], group["weight_decay"])

    def _update(self, parameter: torch.Tensor, lr: float, momentum: float, weight_decay: float) -> None:
        assert parameter.grad is not None
        mean = self.state[parameter].setdefault("mean", torch.zeros_like(parameter))
        mean.lerp_(parameter.grad, 1 - momentum)
        direction = orthogonalise(parameter.grad.lerp(mean, momentum))
        scale = max(1.0, parameter.shape[0] / parameter.shape[1]) ** 0.5
        parameter.mul_(1 - lr * weight_decay).add_(direction, alpha=-lr * scale)


def orthogonalise(matrix: torch.Tensor) -> torch.Tensor:
    """The matrix with its singular values moved to about 1 (0.7 to 1.2) by five Newton–Schulz iterations."""
    tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.T if tall else matrix) / (matrix.norm() + 1e-7)
    for _ in range(_ITERATIONS):
        gram = x @ x.T
        x = _A * x + (_B * gram + _C * gram @ gram) @ x
    return x.T if tall else x
