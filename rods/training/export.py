"""The trained policy as a plain Hugging Face folder, for evaluation and for the next run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from transformers import AutoTokenizer, PreTrainedModel

if TYPE_CHECKING:
    from rods.training.learner import Learner


@dataclass(frozen=True)
class Policy:
    """A policy in host memory; what the learner does next does not touch it.

    Attributes:
        rank: of the process.
        weights: by Hugging Face name, on rank 0; nothing elsewhere.
        model: gives the configuration.
        tokenizer_dir: holds the tokenizer.
    """

    rank: int
    weights: dict[str, torch.Tensor]
    model: PreTrainedModel
    tokenizer_dir: Path | str

    def export(self, folder: Path) -> None:
        """Write weights (safetensors), config and tokenizer to `folder`; rank 0 does."""
        if self.rank == 0:
            self.model.save_pretrained(folder, state_dict=self.weights)
            AutoTokenizer.from_pretrained(str(self.tokenizer_dir)).save_pretrained(folder)


def capture(learner: Learner) -> Policy:
    """The learner's policy as it is. Collective."""
    weights = {}
    for name, tensor in learner.weights():  # to its end on every rank: under ZeRO-3 each one takes part
        if learner.rank == 0:
            weights[name] = tensor.cpu()
    return Policy(learner.rank, weights, learner.policy.model, learner.model_dir)
