"""The trainer's ranks, as far as rollouts care: who am I, and what the first one knows."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import TypeVar

import torch.distributed as dist

Value = TypeVar("Value")

_ANY_LENGTH = timedelta(days=30)  # longer than any barrier, evaluation or step


def place() -> tuple[int, int]:
    """(this rank, number of ranks); (0, 1) without a process group."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def from_first(value: Value | None) -> Value:
    """What rank 0 gives, on every rank. Collective."""
    holder = [value]
    if place()[1] > 1:
        dist.broadcast_object_list(holder, src=0)
    (found,) = holder
    assert found is not None
    return found


def from_all(value: Value) -> list[Value]:
    """What each rank gives, in their order. Collective."""
    ranks = place()[1]
    if ranks == 1:
        return [value]
    found: list[Value | None] = [None] * ranks
    dist.all_gather_object(found, value)
    return [each for each in found if each is not None]


def arrive() -> dist.Work:
    """This rank has come so far; what is returned is completed once all have. Collective, and returns at once."""
    work: dist.Work = dist.barrier(group=patient(), async_op=True)
    return work


@cache
def patient() -> dist.ProcessGroup:
    """The group for the waits of the thread that trains. Collective at first."""
    return new_group()


def new_group() -> dist.ProcessGroup:
    """All ranks, beside the group of the tensors: for waits of any length, in one thread, without a GPU. Collective."""
    group: dist.ProcessGroup = dist.new_group(backend="gloo", timeout=_ANY_LENGTH)
    return group
