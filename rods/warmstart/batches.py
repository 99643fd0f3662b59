"""Batches for the supervised warm start: episodes as weighted tokens, rows of like length together.

Two things make a small model learn fast here: one-turn episodes first, and, mixed among them, copy drills
(random token strings said twice), on which the attention pattern that copies names and texts forms.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer

from rods.tasks.scripted import generate
from rods.warmstart.demonstrations import Demonstration, solved
from rods.warmstart.tokenizer import RESERVED
from rods.warmstart.transcript import pieces


@dataclass(frozen=True)
class Row:
    """One sequence: token ids and the loss weight of each."""

    ids: tuple[int, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True)
class Batch:
    """Rows padded on the right: ids (rows × length, int64) and loss weights (same shape, 0 on padding)."""

    ids: torch.Tensor
    weights: torch.Tensor


def encode(tokenizer: Tokenizer, demonstration: Demonstration, others: float) -> Row:
    """A conversation as tokens, each piece encoded on its own.

    Args:
        tokenizer: the policy's.
        demonstration: the conversation.
        others: loss weight of tokens that others wrote (queries, tool results); the assistant's own count 1.
    """
    ids: list[int] = []
    weights: list[float] = []
    for piece in pieces(demonstration):
        encoded = tokenizer.encode(piece.text).ids
        ids += encoded
        weights += [1.0 if piece.spoken else others] * len(encoded)
    return Row(tuple(ids), tuple(weights))


def episodes(
    tokenizer: Tokenizer, rng: random.Random, requests: Sequence[int], others: float
) -> Iterator[Row]:
    """Endless ground-truth episodes of all kinds and types.

    Args:
        tokenizer: the policy's.
        rng: source of every choice.
        requests: an episode's number of requests is drawn from these.
        others: see `encode`.
    """
    while True:
        yield encode(tokenizer, solved(generate(rng, requests=rng.choice(requests))), others)


def copy_drills(vocabulary: int, rng: random.Random) -> Iterator[Row]:
    """Endless random strings said twice with a random gap between; only the repetition counts in the loss."""
    while True:
        text = [rng.randrange(RESERVED, vocabulary) for _ in range(rng.randint(5, 25))]
        gap = [rng.randrange(RESERVED, vocabulary) for _ in range(rng.randint(0, 15))]
        silent = len(text) + len(gap) + 1
        yield Row((*text, *gap, *text), (0.0,) * silent + (1.0,) * (len(text) - 1))


def alternate(first: Iterator[Row], second: Iterator[Row], chunk_tokens: int) -> Iterator[Row]:
    """Chunks of equal size from two streams in turn."""
    while True:
        yield from take(first, chunk_tokens)
        yield from take(second, chunk_tokens)


def take(rows: Iterator[Row], tokens: int) -> list[Row]:
    """Rows until they hold at least so many tokens."""
    taken: list[Row] = []
    count = 0
    while count < tokens:
        taken.append(next(rows))
        count += len(taken[-1].ids)
    return taken


def batches(stream: Callable[[], Iterator[Row]], tokens: int, rng: random.Random) -> Iterator[Batch]:
    """Endless shuffled batches of at most `tokens` padded tokens (more if one row alone is longer).

    Args:
        stream: asked for rows each time about eight batches are used up, so that a curriculum can change.
        tokens: padded size of a batch.
        rng: shuffles the batches.
    """
    while True:
        ready = list(_packed(sorted(take(stream(), 8 * tokens), key=lambda row: len(row.ids)), tokens))
        rng.shuffle(ready)
        yield from ready


def _packed(rows: Iterable[Row], tokens: int) -> Iterator[Batch]:
    """Batches of rows given by rising length."""
    current: list[Row] = []
    for row in rows:
        if current and len(row.ids) * (len(current) + 1) > tokens:
            yield _pad(current)
            current = []
        current.append(row)
    if current:
        yield _pad(current)


def _pad(rows: Sequence[Row]) -> Batch:
    length = max(len(row.ids) for row in rows)
    ids = torch.zeros(len(rows), length, dtype=torch.long)
    weights = torch.zeros(len(rows), length)
    for index, row in enumerate(rows):
        ids[index, : len(row.ids)] = torch.tensor(row.ids)
        weights[index, : len(row.ids)] = torch.tensor(row.weights)
    return Batch(ids, weights)
