"""From rollouts to tensors: which rollout goes into which mini-batch, rank and micro-batch, and the padding.

Every rank plans for all ranks from the same lengths, so the plan needs no communication, and a batch that
the ranks cannot share is refused on all of them before a collective could hang.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import torch

from rods.errors import RodsError


class BatchError(RodsError):
    """Rollouts that cannot be trained on; the message names the rollout or the number."""


class Sequenced(Protocol):
    """What the learner needs of a rollout: T tokens, which of them were sampled, their log-probabilities."""

    @property
    def token_ids(self) -> Sequence[int]:
        """T token ids."""

    @property
    def mask(self) -> Sequence[int]:
        """T entries, 1 where the policy sampled the token."""

    @property
    def logprobs(self) -> Sequence[float]:
        """T log-probabilities of the engine; ignored where the mask is 0."""


Micro = tuple[int, ...]  # indices of rollouts; empty where a rank only keeps step with the others


@dataclass(frozen=True)
class MiniBatch:
    """One optimizer step: `ranks[r][j]` is rank r's j-th micro-batch; all ranks have equally many."""

    ranks: tuple[tuple[Micro, ...], ...]

    @property
    def rollouts(self) -> tuple[int, ...]:
        """Indices of all its rollouts, over all ranks."""
        return tuple(index for rank in self.ranks for micro in rank for index in micro)


@dataclass(frozen=True)
class Padded:
    """Sequences padded on the right: `ids` B×L, and `mask` B×L (true at tokens to score, not in column 0)."""

    ids: torch.Tensor
    mask: torch.Tensor


def check(rollouts: Sequence[Sequenced], advantages: Sequence[float], micro_batch_tokens: int) -> None:
    """Refuse rollouts that would train on nonsense.

    Raises:
        BatchError: none at all, numbers that do not match, a sampled first token (it has no log-probability),
            or a sequence longer than a micro-batch may be.
    """
    if not rollouts or len(rollouts) != len(advantages):
        raise BatchError(
            f"expected one advantage per rollout and at least one rollout, found {len(rollouts)} rollouts "
            f"and {len(advantages)} advantages; skip a step without rollouts"
        )
    for index, rollout in enumerate(rollouts):
        length = len(rollout.token_ids)
        if not length == len(rollout.mask) == len(rollout.logprobs) or length < 2:
            raise BatchError(
                f"rollout {index}: expected equally many (≥ 2) token_ids, mask and logprobs, found {length}, "
                f"{len(rollout.mask)} and {len(rollout.logprobs)}"
            )
        if rollout.mask[0]:
            raise BatchError(
                f"rollout {index}: the first token is marked as sampled, but nothing precedes it"
            )
        if length > micro_batch_tokens:
            raise BatchError(
                f"rollout {index}: {length} tokens do not fit in training.micro_batch_tokens = "
                f"{micro_batch_tokens}; raise it to at least model.max_length"
            )


def plan(
    lengths: Sequence[int], order: Sequence[int], mini_batches: int, ranks: int, micro_batch_tokens: int
) -> list[MiniBatch]:
    """Divide rollouts into mini-batches, each over ranks, each into micro-batches by padded tokens.

    Args:
        lengths: tokens of each rollout.
        order: a permutation of the rollouts; mini-batches are consecutive, nearly equal parts of it.
        mini_batches: optimizer steps; fewer when there are fewer rollouts.
        ranks: world size.
        micro_batch_tokens: most padded tokens (rows × longest) of a micro-batch.

    Raises:
        BatchError: a mini-batch whose rollouts the ranks cannot share equally.
    """
    parts = min(mini_batches, len(order))
    bounds = [len(order) * part // parts for part in range(parts + 1)]
    minis = [order[start:end] for start, end in pairwise(bounds)]
    for number, mini in enumerate(minis):
        if len(mini) % ranks:
            raise BatchError(
                f"mini-batch {number} of {parts} has {len(mini)} rollouts, which {ranks} ranks cannot share "
                "equally; make tasks_per_step × group_size / mini_batches a multiple of the ranks, or leave "
                "rollouts out"
            )
    return [_over_ranks(mini, lengths, ranks, micro_batch_tokens) for mini in minis]


def pack(indices: Sequence[int], lengths: Sequence[int], micro_batch_tokens: int) -> list[Micro]:
    """Micro-batches of similar length, longest first, each at most `micro_batch_tokens` padded tokens.

    A single sequence longer than the budget stands alone.
    """
    micros: list[list[int]] = []
    for index in sorted(indices, key=lambda i: (-lengths[i], i)):
        if micros and (len(micros[-1]) + 1) * lengths[micros[-1][0]] <= micro_batch_tokens:
            micros[-1].append(index)
        else:
            micros.append([index])
    return [tuple(micro) for micro in micros]


def pad(sequences: Sequence[Sequence[int]], masks: Sequence[Sequence[int]], device: torch.device) -> Padded:
    """Pad on the right with token 0, unmasked. Without sequences: one row of two tokens, nothing masked.

    Right padding needs no attention mask under causal attention: no real token sees the padding.
    """
    width = max((len(sequence) for sequence in sequences), default=2)
    ids = torch.zeros(max(len(sequences), 1), width, dtype=torch.long)
    mask = torch.zeros_like(ids, dtype=torch.bool)
    for row, (sequence, marks) in enumerate(zip(sequences, masks, strict=True)):
        ids[row, : len(sequence)] = torch.tensor(sequence)
        mask[row, : len(marks)] = torch.tensor(marks, dtype=torch.bool)
    return Padded(ids.to(device), mask.to(device))


def _over_ranks(
    mini: Sequence[int], lengths: Sequence[int], ranks: int, micro_batch_tokens: int
) -> MiniBatch:
    by_length = sorted(mini, key=lambda i: (-lengths[i], i))
    packed = [pack(by_length[rank::ranks], lengths, micro_batch_tokens) for rank in range(ranks)]
    most = max(len(micros) for micros in packed)
    # ZeRO's collectives run in every forward and backward: all ranks must run equally many.
    return MiniBatch(tuple(tuple(micros) + ((),) * (most - len(micros)) for micros in packed))
