"""A checkpoint's weights as a Hugging Face folder."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rods.errors import RodsError
from rods.exchange.atomic import read_json

_PREFIX = "model."  # the policy module wraps the language model under this name


class GatheringError(RodsError):
    """Weights that are not those of the model."""


def convert(checkpoint: Path, start: Path, dtype: str, target: Path) -> None:
    """Write the weights of a complete `checkpoint` into the new folder `target`.

    Args:
        start: folder of the model that the run began from; its configuration and tokenizer come along.
        dtype: of what is written, as torch names it.

    Raises:
        GatheringError: the weights do not fit that model.
    """
    model = AutoModelForCausalLM.from_pretrained(str(start), dtype=getattr(torch, dtype))
    weights = {name.removeprefix(_PREFIX): tensor for name, tensor in _weights(checkpoint).items()}
    try:
        model.load_state_dict(weights, strict=False)
    except RuntimeError as error:
        raise GatheringError(
            f"checkpoint {checkpoint}: its weights do not fit the model in {start} ({error})"
        ) from error
    missing = {name for name, _ in model.named_parameters()} - set(weights)
    if missing:
        raise GatheringError(
            f"checkpoint {checkpoint}: expected every weight of the model in {start}, "
            f"found no {', '.join(sorted(missing)[:3])}"
        )
    model.save_pretrained(target)
    AutoTokenizer.from_pretrained(str(start)).save_pretrained(target)


def _weights(checkpoint: Path) -> Mapping[str, torch.Tensor]:
    """By name, with the module's prefix; ZeRO's pieces are put together by DeepSpeed's own tool."""
    if read_json(checkpoint / "learner.json")["zero_stage"] == 0:
        state = torch.load(checkpoint / "model" / "mp_rank_00_model_states.pt", weights_only=True)
        module: Mapping[str, torch.Tensor] = state["module"]
        return module
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

    with redirect_stdout(sys.stderr):  # it talks where results are printed
        gathered: Mapping[str, torch.Tensor] = get_fp32_state_dict_from_zero_checkpoint(
            str(checkpoint), tag="model"
        )
    return gathered
