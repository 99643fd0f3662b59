"""The trained policy as a plain Hugging Face folder, for evaluation and for the next run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from transformers import AutoTokenizer

if TYPE_CHECKING:
    from rods.training.learner import Learner


def export(learner: Learner, folder: Path) -> None:
    """Write weights (safetensors), config and tokenizer to `folder`. Collective; rank 0 writes."""
    weights = {name: tensor.detach().cpu() for name, tensor in learner.weights()}
    if learner.rank == 0:
        learner.policy.model.save_pretrained(folder, state_dict=weights)
        AutoTokenizer.from_pretrained(str(learner.model_dir)).save_pretrained(folder)
