"""The engine that needs nothing but transformers: continuous batching of any full-attention causal model.

It exists for machines without vLLM and as the reference the vLLM engine is compared with. Rows of one batch
advance a token at a time; prompts and tool results go in as chunks once enough rows wait with some, so that
neither blocks the other; an episode's keys and values stay in its row between messages; rows without work
are dropped when half are idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from rods.config import ModelConfig, RolloutConfig
from rods.errors import RodsError
from rods.rollout.chat import end_token, load_tokenizer
from rods.rollout.draw import draw, uniforms
from rods.rollout.engine import (
    Completion,
    Request,
    RequestError,
    Sampling,
    check_request,
    check_sequences,
)
from rods.rollout.row_cache import ATTENTION, RowCache, Window
from rods.rollout.weights import checked

_CHUNK_SHARE = 0.25  # of the rows with work must wait with tokens to feed before decoding pauses for a chunk
_CHUNK_TOKENS = 8192  # padded tokens of one chunk
_LOGITS = 2**26  # logits held at once while scoring


class UnsupportedModelError(RodsError):
    """A model whose attention this engine does not compute."""


def build(
    model_dir: Path, model: ModelConfig, rollout: RolloutConfig, seed: int, logs: Path | None
) -> HfEngine:
    """Load the model onto the GPU if there is one, else the CPU.

    `seed` and `logs` are unused: requests bring their own seeds, and nothing is written.

    Raises:
        UnsupportedModelError: the model does not use full attention in every layer.
        ChatError: the tokenizer lacks the chat format's tokens.
    """
    policy: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        str(model_dir), dtype=getattr(torch, model.dtype), attn_implementation=ATTENTION
    )
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.nn.Module.to(policy, device)
    return HfEngine(policy, end_token(load_tokenizer(model_dir)), model.max_length, rollout.max_concurrent)


@dataclass
class _Row:
    """One row of the batch: an episode, with or without a message in the making.

    Attributes:
        cached: tokens whose keys and values the cache holds.
        pending: prompt tokens still to be fed.
        sampled, logprobs: the message so far; its last token is not in the cache yet.
        uniform: one number per token of the message.
    """

    id: str
    cached: list[int] = field(default_factory=list)
    request: Request | None = None
    pending: list[int] = field(default_factory=list)
    sampled: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    uniform: list[float] = field(default_factory=list)

    @property
    def sampling(self) -> Sampling:
        assert self.request is not None
        return self.request.sampling


class HfEngine:
    """See `rods.rollout.engine.Engine`.

    Args:
        policy: with the attention implementation `row_cache.ATTENTION`.
        end: id of the token that ends a message.
        max_length: most tokens of a sequence.
        max_rows: requests advanced together; more wait.
    """

    name = "hf"

    def __init__(self, policy: PreTrainedModel, end: int, max_length: int, max_rows: int) -> None:
        _check_attention(policy)
        self.max_length = max_length
        self.version = 0
        self._policy = policy.eval()
        self._end = end
        self._max_rows = max_rows
        self._waiting: list[Request] = []
        self._in_flight: set[str] = set()
        self._rows: list[_Row] = []
        self._cache = RowCache(policy.config.num_hidden_layers)

    def submit(self, request: Request) -> None:
        """See `Engine.submit`."""
        check_request(request, self.max_length, request.id in self._in_flight)
        self._in_flight.add(request.id)
        self._waiting.append(request)

    @torch.inference_mode()
    def step(self) -> list[Completion]:
        """See `Engine.step`: feeds one chunk or one token per row."""
        self._admit()
        busy = [index for index, row in enumerate(self._rows) if row.request]
        if not busy:
            return []
        if 2 * len(busy) <= len(self._rows):
            busy = self._compact(busy)
        pending = [index for index in busy if self._rows[index].pending]
        if pending and (len(pending) >= _CHUNK_SHARE * len(busy)):
            return self._feed_chunk(pending)
        return self._feed_tokens([index for index in busy if not self._rows[index].pending])

    def update_weights(self, weights: Iterable[tuple[str, torch.Tensor]], version: int) -> None:
        """See `Engine.update_weights`."""
        self._refuse_in_flight("update_weights")
        self._rows.clear()
        own = self._policy.state_dict()
        expected = {name: tensor.shape for name, tensor in own.items()}
        with torch.no_grad():
            for name, tensor in checked(weights, expected):
                own[name].copy_(tensor)
        self.version = version

    def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """See `Engine.score`."""
        self._refuse_in_flight("score")
        check_sequences(sequences, self.max_length)
        budget = max(1, min(_CHUNK_TOKENS, _LOGITS // self._policy.config.vocab_size))
        scores: list[list[float]] = [[] for _ in sequences]
        by_length = sorted(range(len(sequences)), key=lambda index: len(sequences[index]))
        while by_length:
            longest = len(sequences[by_length[-1]])
            count = max(1, budget // longest)
            batch, by_length = by_length[-count:], by_length[:-count]
            for index, values in zip(batch, self._score([sequences[i] for i in batch]), strict=True):
                scores[index] = values
        return scores

    def sleep(self) -> None:
        """See `Engine.sleep`: it keeps what it has."""
        self._refuse_in_flight("sleep")

    def wake(self) -> None:
        """See `Engine.wake`."""

    def close(self) -> None:
        """See `Engine.close`."""
        self._rows.clear()
        self._waiting.clear()
        self._in_flight.clear()
        self._cache = RowCache(0)

    def _refuse_in_flight(self, action: str) -> None:
        if self._in_flight:
            count = len(self._in_flight)
            raise RequestError(f"{action}: {count} requests are in flight; step() until they are done first")

    def _admit(self) -> None:
        """Give waiting requests rows: the episode's own if it has one, else an idle one, else a new one."""
        newcomers = []
        own = {row.id: row for row in self._rows}
        for request in self._waiting:
            if request.id in own:
                _begin(own[request.id], request, self.max_length)
            else:
                newcomers.append(request)
        idle = [index for index, row in enumerate(self._rows) if not row.request]
        idle += range(len(self._rows), self._max_rows)
        for request, index in zip(newcomers, idle, strict=False):
            self._rows[index : index + 1] = [_Row(request.id)]
            _begin(self._rows[index], request, self.max_length)
        self._waiting = newcomers[len(idle) :]

    def _compact(self, busy: list[int]) -> list[int]:
        self._cache.keep(self._tensor(busy))
        self._rows = [self._rows[index] for index in busy]
        return list(range(len(busy)))

    def _feed_chunk(self, indices: list[int]) -> list[Completion]:
        """Feed waiting tokens of some rows, left-padded to one length; rows that are through draw a token."""
        length = min(max(len(self._rows[index].pending) for index in indices), _CHUNK_TOKENS)
        indices = indices[: max(1, _CHUNK_TOKENS // length)]
        tokens, slots = [], []
        for row in (self._rows[index] for index in indices):
            piece, row.pending = row.pending[:length], row.pending[length:]
            first = len(row.cached) + 1
            padding = [0] * (length - len(piece))
            tokens.append(padding + piece)
            slots.append([*padding, *range(first, first + len(piece))])
            row.cached += piece
        logits = self._forward(indices, tokens, slots)
        through = [place for place, index in enumerate(indices) if not self._rows[index].pending]
        return self._draw(logits[through], [self._rows[indices[place]] for place in through])

    def _feed_tokens(self, indices: list[int]) -> list[Completion]:
        """Feed the last token of each of these rows; the others pass through the batch as padding."""
        tokens, slots = [[0] for _ in self._rows], [[0] for _ in self._rows]
        for index in indices:
            row = self._rows[index]
            row.cached.append(row.sampled[-1])
            tokens[index], slots[index] = [row.sampled[-1]], [len(row.cached)]
        logits = self._forward(range(len(self._rows)), tokens, slots)
        return self._draw(logits[indices], [self._rows[index] for index in indices])

    def _forward(self, rows: Sequence[int], tokens: list[list[int]], slots: list[list[int]]) -> torch.Tensor:
        """Logits [n, vocabulary] after the last token of each of n rows of tokens."""
        window = Window(
            rows=self._tensor(rows),
            contiguous=isinstance(rows, range),
            slots=self._tensor(slots),
            span=max(row[-1] for row in slots) + 1,
        )
        self._cache.aim(window)
        output = self._policy(
            input_ids=self._tensor(tokens),
            attention_mask=window.mask(self._policy.dtype),
            position_ids=window.positions,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: torch.Tensor = output.logits[:, -1]
        return logits

    def _draw(self, logits: torch.Tensor, rows: list[_Row]) -> list[Completion]:
        if not rows:
            return []
        settings = [row.sampling for row in rows]
        tokens, logprobs = draw(logits, settings, [row.uniform[len(row.sampled)] for row in rows])
        finished = []
        for row, token, logprob in zip(rows, tokens, logprobs, strict=True):
            row.sampled.append(token)
            row.logprobs.append(logprob)
            stopped = token == self._end
            if stopped or len(row.sampled) == len(row.uniform):
                finished.append(Completion(row.id, tuple(row.sampled), tuple(row.logprobs), stopped))
                row.request = None
                self._in_flight.remove(row.id)
        return finished

    @torch.inference_mode()
    def _score(self, sequences: list[Sequence[int]]) -> list[list[float]]:
        length = max(len(sequence) for sequence in sequences)
        tokens = self._tensor([[*sequence, *[0] * (length - len(sequence))] for sequence in sequences])
        causal = torch.ones(1, 1, length, length, dtype=torch.bool, device=tokens.device).tril()
        positions = torch.arange(length, device=tokens.device)[None]
        output = self._policy(
            input_ids=tokens, attention_mask=causal, position_ids=positions, use_cache=False
        )
        logprobs = torch.log_softmax(output.logits[:, :-1].float(), -1)
        chosen = logprobs.gather(2, tokens[:, 1:, None])[:, :, 0].tolist()
        return [values[: len(sequence) - 1] for values, sequence in zip(chosen, sequences, strict=True)]

    def _tensor(self, data: Sequence[int] | Sequence[list[int]]) -> torch.Tensor:
        return torch.tensor(data, dtype=torch.long, device=self._policy.device)


def _begin(row: _Row, request: Request, max_length: int) -> None:
    """Start a message in `row`, keeping what its cache shares with the prompt."""
    prompt = list(request.prompt_ids)
    # The last prompt token is always fed: its logits are what the first draw needs.
    shared = _common_prefix(row.cached, prompt[:-1])
    row.cached, row.pending = prompt[:shared], prompt[shared:]
    row.request, row.sampled, row.logprobs = request, [], []
    row.uniform = uniforms(request.sampling.seed, min(request.sampling.max_tokens, max_length - len(prompt)))


def _common_prefix(one: list[int], other: list[int]) -> int:
    if one == other[: len(one)]:
        return len(one)
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(other))


def _check_attention(policy: PreTrainedModel) -> None:
    kinds = set(getattr(policy.config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"} or policy.config._attn_implementation != ATTENTION:
        raise UnsupportedModelError(
            f"engine hf: expected full attention in every layer by {ATTENTION!r}, found {sorted(kinds)} "
            f"by {policy.config._attn_implementation!r}; set rollout.engine=vllm for this model"
        )
