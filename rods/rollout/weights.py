"""Which tensors an engine must be sent, checked as they pass.

A silent gap is the danger: vLLM keeps the old output head of a model with tied embeddings unless
`lm_head.weight` is sent by name, and only logs a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from rods.rollout.engine import WeightsError


def shapes(model_dir: str) -> dict[str, torch.Size]:
    """Name and shape of every tensor of the model in `model_dir`, tied ones under each of their names."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(model_dir))
    return {name: tensor.shape for name, tensor in model.state_dict().items()}


def checked(
    weights: Iterable[tuple[str, torch.Tensor]], expected: Mapping[str, torch.Size]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Pass `weights` on, one at a time.

    Raises:
        WeightsError: at a tensor that is unknown or of another shape; at the end, when some are missing.
    """
    missing = set(expected)
    for name, tensor in weights:
        if name not in expected:
            raise WeightsError(f"weights: unknown tensor {name!r}; the model has {len(expected)} others")
        if tensor.shape != expected[name]:
            raise WeightsError(
                f"weights: {name!r} has shape {tuple(tensor.shape)}, expected {tuple(expected[name])}"
            )
        missing.discard(name)
        yield name, tensor.detach()
    if missing:
        raise WeightsError(
            f"weights: {len(missing)} of {len(expected)} tensors are missing, {min(missing)!r} among them; send "
            "every name of the model's state dict (lm_head.weight even when it is tied)"
        )
