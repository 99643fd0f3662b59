"""What generates tokens: one interface, so that episodes do not know whether transformers or vLLM runs them.

Token ids in, token ids out. An engine advances many requests at once (`submit`, then `step` until they are
done), takes new weights between batches of episodes, and can score given sequences, which is how training
checks that engine and learner hold the same policy.

An engine keeps what it has computed for a sequence of tokens between the messages of an episode: a request
with the id of an earlier one, whose prompt extends that one's tokens, only pays for what is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rods.errors import RodsError
from rods.registry import Registry
from rods.rollout import compiler

if TYPE_CHECKING:
    import torch

    from rods.config import ModelConfig, RolloutConfig


class RequestError(RodsError):
    """A request or a sequence that the engine cannot serve: empty, too long, or a duplicate id."""


class WeightsError(RodsError):
    """Weights that do not fit the model: a missing, unknown or wrongly shaped tensor."""


@dataclass(frozen=True)
class Sampling:
    """How the tokens of one message are drawn.

    Attributes:
        temperature: 0 takes the most likely token.
        top_p: smallest set of most likely tokens whose probability reaches it; 1 keeps all.
        max_tokens: longest message, in tokens; the engine's `max_length` may end it earlier.
        seed: fixes the draw, whatever else is in flight (up to the rounding of batched arithmetic).
    """

    temperature: float
    top_p: float
    max_tokens: int
    seed: int


@dataclass(frozen=True)
class Request:
    """One message to generate after `prompt_ids`; `id` names the episode, unique among those in flight."""

    id: str
    prompt_ids: tuple[int, ...]
    sampling: Sampling


@dataclass(frozen=True)
class Completion:
    """A generated message.

    Attributes:
        id: the request's.
        token_ids: what was sampled, the end token included when it was.
        logprobs: log-probability of each sampled token under the policy at temperature 1 and without the
            top_p cut, whatever the sampling settings were: the learner compares them with its own.
        stopped: True when the end token ended it, False when its length did.
    """

    id: str
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    stopped: bool


class Engine(Protocol):
    """A policy that generates. Not safe for concurrent use.

    Attributes:
        name: its name in the registry.
        max_length: most tokens of a sequence, prompt and message together.
        version: of the weights it holds; 0 at the start, then what `update_weights` was told.
    """

    name: str
    max_length: int
    version: int

    def submit(self, request: Request) -> None:
        """Queue a request.

        Raises:
            RequestError: an empty prompt, one without room for a token, or an id already in flight.
        """

    def step(self) -> list[Completion]:
        """Advance what is in flight; returns what finished, in a reproducible order ([] when idle)."""

    def update_weights(self, weights: Iterable[tuple[str, torch.Tensor]], version: int) -> None:
        """Replace all weights (Hugging Face names, `lm_head.weight` even when tied), forget cached prefixes.

        Raises:
            WeightsError: a tensor is missing, unknown or of another shape; build another engine then.
            RequestError: requests are in flight.
        """

    def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probability at temperature 1 of tokens 1…n-1 of each sequence (n - 1 values for n tokens).

        Raises:
            RequestError: a sequence of fewer than 2 or more than `max_length` tokens, or requests in flight.
        """

    def sleep(self) -> None:
        """Leave the GPU's memory to the learner until `wake`; nothing where the two share none. Not in flight.

        Raises:
            RequestError: requests are in flight.
        """

    def wake(self) -> None:
        """Be ready for requests and weights again; harmless when awake."""

    def close(self) -> None:
        """Release memory and helpers; the engine is unusable afterwards. May be called twice."""


ENGINES = Registry(
    "engine",
    {
        "hf": "rods.rollout.hf_engine:build",
        "vllm": "rods.rollout.vllm_engine:build",
        "served": "rods.rollout.served_engine:build",
    },
)


def resolve_name(name: str) -> str:
    """`auto` becomes vllm where it is installed, else hf; any other name stays."""
    if name != "auto":
        return name
    return "vllm" if find_spec("vllm") is not None else "hf"


def build(
    model_dir: Path, model: ModelConfig, rollout: RolloutConfig, seed: int, logs: Path | None = None
) -> Engine:
    """The engine that `rollout` names, holding the weights in `model_dir`.

    Args:
        logs: an existing folder for what servers of the engine write; None: a temporary one.

    Raises:
        UnknownNameError: no such engine.
        NoCompilerError: vLLM would start here and could not.
    """
    name = "served" if rollout.placement == "served" else resolve_name(rollout.engine)
    if name == "vllm" or (name == "served" and not rollout.servers):
        compiler.check()
    engine: Engine = ENGINES.get(name)(model_dir, model, rollout, seed, logs)
    return engine


def check_request(request: Request, max_length: int, in_flight: bool) -> None:
    """The checks every engine makes on submission.

    Raises:
        RequestError: see `Engine.submit`.
    """
    length = len(request.prompt_ids)
    if in_flight:
        raise RequestError(f"request {request.id!r}: already in flight; wait for its completion")
    if length == 0:
        raise RequestError(f"request {request.id!r}: expected a prompt of at least one token, found none")
    if length >= max_length:
        raise RequestError(
            f"request {request.id!r}: the prompt has {length} tokens and must leave room for one more within "
            f"max_length = {max_length}; end the episode earlier or raise model.max_length"
        )
    if request.sampling.max_tokens < 1:
        raise RequestError(
            f"request {request.id!r}: max_tokens = {request.sampling.max_tokens}, expected 1 or more"
        )


def check_sequences(sequences: Sequence[Sequence[int]], max_length: int) -> None:
    """The checks every engine makes before scoring.

    Raises:
        RequestError: see `Engine.score`.
    """
    for index, sequence in enumerate(sequences):
        if not 2 <= len(sequence) <= max_length:
            raise RequestError(
                f"score: sequence {index} has {len(sequence)} tokens, expected 2 to max_length = {max_length}"
            )
