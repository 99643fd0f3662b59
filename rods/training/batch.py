"""From rollouts to tensors: which rollout goes into which mini-batch, rank and micro-batch, laid end to end.

Every rank plans for all ranks from the same lengths, so the plan needs no communication, and a batch that
the ranks cannot share is refused on all of them before a collective could hang.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Protocol

import torch

from rods.errors import RodsError


class BatchError(RodsError):
    """Rollouts that cannot be trained on; the message names the rollout or the number."""


Credit = float | torch.Tensor  # of a rollout: one number, or one for each of its sampled tokens


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
class Packed:
    """S sequences end to end, T tokens in all, of which N are to be scored.

    Attributes:
        ids: T tokens.
        positions: T positions, each token's place in its own sequence.
        chosen: N indices into `ids`, never of a sequence's first token.
        bounds: S+1 positions (int32) where the sequences begin, and T.
        lengths: of the S sequences.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    chosen: torch.Tensor
    bounds: torch.Tensor
    lengths: tuple[int, ...]


def check(rollouts: Sequence[Sequenced], advantages: Sequence[Credit], micro_batch_tokens: int) -> None:
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
    for index, (rollout, advantage) in enumerate(zip(rollouts, advantages, strict=True)):
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
        if isinstance(advantage, torch.Tensor) and advantage.shape not in ((), (sum(rollout.mask),)):
            raise BatchError(
                f"rollout {index}: expected one advantage or one for each of {sum(rollout.mask)} sampled tokens, "
                f"found a tensor of shape {tuple(advantage.shape)}"
            )
        if length > micro_batch_tokens:
            raise BatchError(
                f"rollout {index}: {length} tokens do not fit in training.micro_batch_tokens = "
                f"{micro_batch_tokens}; raise it to at least model.max_length"
            )


def plan(
    lengths: Sequence[int], order: Sequence[int], mini_batches: int, ranks: int, micro_batch_tokens: int
) -> list[MiniBatch]:
    """Divide rollouts into mini-batches, each over ranks, each into micro-batches by tokens.

    Args:
        lengths: tokens of each rollout.
        order: a permutation of the rollouts; mini-batches are consecutive, nearly equal parts of it.
        mini_batches: optimizer steps; fewer when there are fewer rollouts a rank.
        ranks: world size.
        micro_batch_tokens: most tokens of a micro-batch.

    Raises:
        BatchError: the ranks cannot share the rollouts equally.
    """
    if len(order) % ranks:
        raise BatchError(
            f"{len(order)} rollouts, which {ranks} ranks cannot share equally; make training.group_size a "
            "multiple of the ranks, or leave rollouts out"
        )
    each = len(order) // ranks
    parts = min(mini_batches, each)
    bounds = [each * part // parts * ranks for part in range(parts + 1)]
    minis = [order[start:end] for start, end in pairwise(bounds)]
    return [_over_ranks(mini, lengths, ranks, micro_batch_tokens) for mini in minis]


def pack(indices: Sequence[int], lengths: Sequence[int], micro_batch_tokens: int) -> list[Micro]:
    """Micro-batches of at most `micro_batch_tokens` tokens: longest first, each into the first with room.

    A single sequence longer than the budget stands alone.
    """
    micros: list[list[int]] = []
    room: list[int] = []
    for index in sorted(indices, key=lambda i: (-lengths[i], i)):
        place = next((place for place, left in enumerate(room) if left >= lengths[index]), len(micros))
        if place == len(micros):
            micros.append([])
            room.append(micro_batch_tokens)
        micros[place].append(index)
        room[place] -= lengths[index]
    return [tuple(micro) for micro in micros]


def lay(sequences: Sequence[Sequence[int]], masks: Sequence[Sequence[int]], device: torch.device) -> Packed:
    """Lay sequences end to end; tokens whose mask is 1 are to be scored.

    Without sequences: one of two tokens, of which none is scored.
    """
    if not sequences:
        sequences, masks = [(0, 0)], [(0, 0)]
    lengths = tuple(len(sequence) for sequence in sequences)
    mask = torch.cat([torch.tensor(marks, dtype=torch.bool) for marks in masks])
    return Packed(
        ids=torch.cat([torch.tensor(sequence) for sequence in sequences]).to(device),
        positions=torch.cat([torch.arange(length) for length in lengths]).to(device),
        chosen=mask.nonzero().squeeze(1).to(device),
        bounds=torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=device),
        lengths=lengths,
    )


def lay_rollouts(rollouts: Sequence[Sequenced], device: torch.device) -> Packed:
    """Lay rollouts end to end; what the policy sampled is to be scored."""
    return lay([rollout.token_ids for rollout in rollouts], [rollout.mask for rollout in rollouts], device)


def engine_logprobs(rollouts: Sequence[Sequenced], device: torch.device) -> torch.Tensor:
    """The engine's log-probability of each sampled token, in the order of `lay_rollouts`."""
    sampled = [
        torch.tensor(rollout.logprobs)[torch.tensor(rollout.mask, dtype=torch.bool)] for rollout in rollouts
    ]
    return torch.cat([*sampled, torch.empty(0)]).to(device)


def spread(values: Sequence[Credit], counts: Sequence[int], device: torch.device) -> torch.Tensor:
    """Values of rollouts with `counts` sampled tokens each, as one fp32 value per sampled token."""
    parts = [
        torch.as_tensor(value, dtype=torch.float32).expand(count)
        for value, count in zip(values, counts, strict=True)
    ]
    return torch.cat([*parts, torch.empty(0)]).to(device)


def _over_ranks(
    mini: Sequence[int], lengths: Sequence[int], ranks: int, micro_batch_tokens: int
) -> MiniBatch:
    by_length = sorted(mini, key=lambda i: (-lengths[i], i))
    packed = [pack(by_length[rank::ranks], lengths, micro_batch_tokens) for rank in range(ranks)]
    most = max(len(micros) for micros in packed)
    # ZeRO's collectives run in every forward and backward: all ranks must run equally many.
    return MiniBatch(tuple(tuple(micros) + ((),) * (most - len(micros)) for micros in packed))
