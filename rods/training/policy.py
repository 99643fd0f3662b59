"""The policy as the gradient sees it: token ids in, log-probabilities of chosen tokens out.

Logits are the largest tensors of a step (tokens × vocabulary), so they are computed only where the mask
asks for them, and in chunks that are recomputed in the backward pass when there are several. Being one
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

from rods.errors import RodsError

CHUNK_LOGITS = 2**27  # logits of one chunk: 0.5 GiB in fp32
_PROBE_TOLERANCE = 1e-2  # relative; bf16 rounds at 4e-3


class UnsupportedModelError(RodsError):
    """A model whose logits are not its output head applied to its last hidden state."""


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

    def forward(
        self, ids: torch.Tensor, mask: torch.Tensor, chunks: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities of the masked tokens given all tokens before them, at temperature 1.

        Args:
            ids: B×L, padded on the right.
            mask: B×L booleans with N true, none in column 0.
            chunks: pieces to compute the logits in; under ZeRO-3 it must be equal on all ranks.

        Returns:
            N log-probabilities and N entropies in nats, in fp32 and row-major order of the mask.
        """
        hidden = self.model.base_model(input_ids=ids, use_cache=False).last_hidden_state
        chosen = hidden[:, :-1][mask[:, 1:]]
        targets = ids[:, 1:][mask[:, 1:]]
        pairs = zip(chosen.tensor_split(chunks), targets.tensor_split(chunks), strict=True)
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
    """Load a policy from a Hugging Face folder (or a name in the local cache).

    Args:
        path: what `from_pretrained` takes.
        dtype: "float32" or "bfloat16"; stored weights are converted.
        entropy_gradient: see `Policy`.

    Raises:
        UnsupportedModelError: the architecture scales or caps its logits.
    """
    disable_progress_bar()  # it would cut through the run's own progress display
    model = AutoModelForCausalLM.from_pretrained(str(path), dtype=getattr(torch, dtype))
    _probe(model, path)
    return Policy(model, entropy_gradient)


def chunks_for(tokens: int, vocabulary: int) -> int:
    """In how many pieces the logits of `tokens` positions are computed (at least 1)."""
    return max(1, -(-tokens * vocabulary // CHUNK_LOGITS))


@torch.no_grad()
def _probe(model: PreTrainedModel, path: Path | str) -> None:
    """Compare the shortcut (head on hidden states) with the model's own logits on three tokens."""
    ids = torch.arange(1, 4).unsqueeze(0)
    hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    ours, theirs = model.get_output_embeddings()(hidden), model(input_ids=ids, use_cache=False).logits
    if not torch.allclose(ours, theirs, rtol=_PROBE_TOLERANCE, atol=_PROBE_TOLERANCE):
        raise UnsupportedModelError(
            f"model.path = {path}: {type(model).__name__} does more to its logits than its output head does; "
            "use an architecture such as Qwen2, Qwen3 or Llama"
        )
