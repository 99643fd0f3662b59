"""The policy as the gradient sees it: token ids in, log-probabilities of chosen tokens out.

Logits are the largest tensors of a step (tokens × vocabulary), so they are computed only for sampled
tokens, and in chunks that are recomputed in the backward pass when there are several. Being one
module, its forward runs inside DeepSpeed's hooks at every ZeRO stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from rods.config import TrainingConfig
from rods.errors import RodsError
from rods.training import attention
from rods.training.batch import Packed, lay

CHUNK_LOGITS = 2**27  # logits of one chunk: 0.5 GiB in fp32
_PROBE_TOLERANCE = 1e-2  # relative; bf16 rounds at 4e-3


class WeightsMissingError(RodsError):
    """A model's folder that is not there or holds no weights."""


class UnsupportedModelError(RodsError):
    """A model whose log-probabilities are not its output head's on sequences that lie end to end."""


class Policy(nn.Module):
    """A causal language model that scores tokens.

    Args:
        model: any Hugging Face causal LM whose logits are `head(last hidden state)`.
        entropy_gradient: let gradients flow through the entropies (an entropy bonus is trained).
    """

    def __init__(self, model: PreTrainedModel, entropy_gradient: bool) -> None:
        super().__init__()
        self.model = model
        self.entropy_gradient = entropy_gradient

    def forward(self, packed: Packed, chunks: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities of the chosen tokens given what precedes them in their sequence, at temperature 1.

        Args:
            packed: sequences end to end, with N chosen tokens.
            chunks: pieces to compute the logits in; under ZeRO-3 it must be equal on all ranks.

        Returns:
            N log-probabilities and N entropies in nats, in fp32 and in the order of `packed.chosen`.
        """
        before = hidden_before(self.model.base_model, packed)
        targets = packed.ids[packed.chosen]
        pairs = zip(before.tensor_split(chunks), targets.tensor_split(chunks), strict=True)
        if chunks == 1 or not torch.is_grad_enabled():
            scored = [self._score(h, t) for h, t in pairs]
        else:
            scored = [checkpoint(self._score, h, t, use_reentrant=False) for h, t in pairs]
        return torch.cat([logprobs for logprobs, _ in scored]), torch.cat([entropy for _, entropy in scored])

    def _score(self, hidden: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.model.get_output_embeddings()(hidden).float()
        log_sum = logits.logsumexp(-1)
        logprobs = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1) - log_sum
        with torch.set_grad_enabled(self.entropy_gradient and torch.is_grad_enabled()):
            entropy = log_sum - (torch.softmax(logits, -1) * logits).sum(-1)
        return logprobs, entropy

    def named_weights(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Parameters under their Hugging Face names; a tied output head is named too, after the rest."""
        names = set()
        for name, parameter in self.model.named_parameters():
            names.add(name)
            yield name, parameter
        head = self.model.get_output_embeddings()
        name = next(name for name, module in self.model.named_modules() if module is head) + ".weight"
        if name not in names:
            yield name, head.weight


def load(path: Path | str, dtype: str, entropy_gradient: bool) -> Policy:
    """Load a policy from a Hugging Face folder.

    Args:
        path: see `load_model`.
        dtype: see `load_model`.
        entropy_gradient: see `Policy`.

    Raises:
        WeightsMissingError, UnsupportedModelError: see `load_model`.
    """
    return Policy(load_model(path, dtype), entropy_gradient)


def load_model(path: Path | str, dtype: str) -> PreTrainedModel:
    """A causal language model that takes packed sequences.

    Args:
        path: a Hugging Face folder; `rods.model_path.local` finds it for a name.
        dtype: "float32" or "bfloat16"; stored weights are converted.

    Raises:
        WeightsMissingError: no folder with weights in it.
        UnsupportedModelError: it scales or caps its logits, or sequences end to end are not kept apart.
    """
    disable_progress_bar()  # it would cut through the run's own progress display
    try:
        model = AutoModelForCausalLM.from_pretrained(
            str(path), dtype=getattr(torch, dtype), attn_implementation="sdpa", local_files_only=True
        )
    except OSError as error:
        raise WeightsMissingError(
            f"model.path = {path}: expected a Hugging Face folder with config.json and weights (model.safetensors), "
            f"found none that loads; run `hf download` again, or name another folder. transformers says: "
            f"{str(error).splitlines()[0]}"
        ) from error
    _probe(model, path)
    return model


def recompute_activations(model: PreTrainedModel, training: TrainingConfig, device: torch.device) -> None:
    """Keep no activations for the backward pass, where the configuration says so (by default on a GPU)."""
    wanted = training.gradient_checkpointing
    if wanted or (wanted is None and device.type != "cpu"):
        model.gradient_checkpointing_enable({"use_reentrant": False})


def hidden_before(base: nn.Module, packed: Packed) -> torch.Tensor:
    """Last hidden states from which the chosen tokens were predicted: those of the tokens before them, N×H."""
    hidden = base(
        input_ids=packed.ids.unsqueeze(0),
        position_ids=packed.positions.unsqueeze(0),
        use_cache=False,
        bounds=packed.bounds,
        lengths=packed.lengths,
    ).last_hidden_state[0]
    return hidden[packed.chosen - 1]


def chunks_for(tokens: int, vocabulary: int) -> int:
    """In how many pieces the logits of `tokens` positions are computed (at least 1)."""
    return max(1, -(-tokens * vocabulary // CHUNK_LOGITS))


@torch.no_grad()
def _probe(model: PreTrainedModel, path: Path | str) -> None:
    """Set packed attention, and compare its log-probabilities on two sequences with the model's own."""
    sequences = ((1, 2, 3), (2, 1))
    own = [model(torch.tensor([ids]), use_cache=False).logits[0, :-1].float() for ids in sequences]
    wanted = torch.cat(own).log_softmax(-1)
    model.set_attn_implementation(attention.PACKED)
    packed = lay(sequences, [(0, 1, 1), (0, 1)], torch.device("cpu"))
    try:
        logits = model.get_output_embeddings()(hidden_before(model.base_model, packed))
    except (TypeError, ValueError) as error:
        raise _unsupported(model, path, f"takes no sequences end to end ({error})") from error
    found = logits.float().log_softmax(-1)
    if not torch.allclose(found, wanted, rtol=_PROBE_TOLERANCE, atol=_PROBE_TOLERANCE):
        raise _unsupported(model, path, "does more to its logits or in its attention than is known here")


def _unsupported(model: PreTrainedModel, path: Path | str, why: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"model.path = {path}: {type(model).__name__} {why}; use an architecture such as Qwen2, Qwen3 or Llama"
    )
