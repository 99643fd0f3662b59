"""Memory of one rank of the training job while it updates, by what holds it.

With P parameters, N ranks, b bytes a weight (4 or 2), and t padded tokens in a micro-batch:

- weights b·P, gradients b·P, optimizer 8·P (two fp32 moments; 12·P in bf16: and an fp32 copy). ZeRO-1 divides the
  optimizer's by N, ZeRO-2 the gradients too, ZeRO-3 the weights too.
- reference b·P, whole on every rank, when there is a KL term.
- activations b·t·layer per layer, where layer = 6·hidden + 6·query + 2·kv + 4·inner numbers a token are kept for the
  backward pass: both norms' inputs, normalised inputs and outputs; the queries' and keys' projections, normalised
  (2·query + 2·kv less without head norms) and rotated; keys and values repeated for all heads; the attention's result;
  the MLP's gate before and after its activation, the other branch, and their product. With gradient checkpointing
  only `hidden` numbers a layer, and one layer whole. In the backward pass the widest gradients are there too:
  3·inner a token.
- logits: fp32, where tokens were sampled, in chunks; one chunk is there four times (logits, softmax, its product
  with them or the gradient's parts).
- An allocator holds about a tenth more than what passes through it (activations, logits) takes.
"""

from __future__ import annotations

from dataclasses import dataclass

from rods.config import Config
from rods.estimate.hardware import RUNTIME
from rods.estimate.shape import Shape

CHUNK_LOGITS = 2**27  # as in rods.training.policy, which imports torch
_LOGIT_COPIES = 4
_ALLOCATOR = 1.1
_FP32, _MOMENTS, _MASTER = 4, 8, 4


@dataclass(frozen=True)
class Load:
    """What a rank works on at once.

    Attributes:
        ranks: N.
        tokens: padded tokens of a micro-batch.
        sampled: of these, tokens that the loss looks at.
        checkpointing: activations are computed again in the backward pass.
    """

    ranks: int
    tokens: int
    sampled: int
    checkpointing: bool


@dataclass(frozen=True)
class Memory:
    """Bytes on one rank."""

    weights: float
    gradients: float
    optimizer: float
    reference: float
    activations: float
    logits: float

    @property
    def learner(self) -> float:
        """All of it."""
        return (
            self.weights + self.gradients + self.optimizer + self.reference + self.activations + self.logits
        )


def estimate(shape: Shape, config: Config, load: Load) -> Memory:
    """Memory of one rank at the height of an update."""
    training, width = config.training, _bytes(config)
    count, ranks = shape.parameters, load.ranks
    states = _MOMENTS + (_MASTER if width < _FP32 else 0)
    return Memory(
        weights=width * count / (ranks if training.zero_stage >= 3 else 1),
        gradients=width * count / (ranks if training.zero_stage >= 2 else 1),
        optimizer=states * count / (ranks if training.zero_stage >= 1 else 1),
        reference=width * count if training.kl_coefficient else 0,
        activations=_ALLOCATOR * width * load.tokens * _kept(shape, load.checkpointing),
        logits=_ALLOCATOR * _LOGIT_COPIES * _FP32 * min(CHUNK_LOGITS, load.sampled * shape.vocabulary),
    )


def engine(shape: Shape, config: Config, capacity: float) -> float:
    """Bytes of the colocated engine: vLLM takes its share of the GPU whatever the model."""
    return config.rollout.gpu_memory_fraction * capacity


def cache_tokens(shape: Shape, config: Config, capacity: float) -> float:
    """Tokens that the engine's KV cache holds beside its copy of the weights."""
    width = _bytes(config)
    free = engine(shape, config, capacity) - width * shape.parameters - RUNTIME
    return max(0.0, free) / (width * shape.kv_per_token)


def _kept(shape: Shape, checkpointing: bool) -> float:
    """Numbers a token that wait for the backward pass."""
    attention = 6 * shape.query_width + 2 * shape.kv_width
    if not shape.head_norm:
        attention -= 2 * (shape.query_width + shape.kv_width)
    layer = 6 * shape.hidden + attention + 4 * shape.inner
    kept = shape.layers * shape.hidden + layer if checkpointing else shape.layers * layer
    return kept + 3 * shape.hidden + 3 * shape.inner


def _bytes(config: Config) -> int:
    return _FP32 if config.model.dtype == "float32" else 2
