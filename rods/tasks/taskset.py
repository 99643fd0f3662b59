"""A source's tasks, split into those trained on and those held out."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rods.errors import RodsError
from rods.tasks.model import Task, fingerprint

VALIDATION = 100  # tasks, where the source says no number
_VALIDATION_SEED = 1


class TaskCountError(RodsError):
    """More tasks were asked for than a source has."""


@dataclass(frozen=True)
class TaskSet:
    """Seed tasks of a run.

    Attributes:
        name: the source.
        train: seed tasks that the curriculum starts from.
        heldout: tasks used for evaluation only, at the start, at stage ends and at the end.
        validation: tasks to choose settings and checkpoints by; of a source without spare ones, some of `train`.
        fingerprint: SHA-256 (hex) over all, in order: two runs with equal fingerprints saw equal tasks.
    """

    name: str
    train: tuple[Task, ...]
    heldout: tuple[Task, ...]
    validation: tuple[Task, ...]
    fingerprint: str

    @property
    def known(self) -> tuple[Task, ...]:
        """All of its tasks once: what no synthesised task may repeat."""
        return tuple({task.id: task for task in (*self.train, *self.validation, *self.heldout)}.values())


def make(
    name: str, train: Sequence[Task], heldout: Sequence[Task], validation: Sequence[Task] = ()
) -> TaskSet:
    """A task set with its fingerprint."""
    everything = (*train, *validation, *heldout)
    return TaskSet(name, tuple(train), tuple(heldout), tuple(validation), fingerprint(everything))


def first(tasks: Sequence[Task], count: int | None, key: str) -> tuple[Task, ...]:
    """The first `count` tasks; all of them for None.

    Args:
        key: the setting that asked, for the message.

    Raises:
        TaskCountError: there are fewer.
    """
    if count is not None and count > len(tasks):
        raise TaskCountError(
            f"{key} = {count}: the source has {len(tasks)} tasks; set at most {len(tasks)} or null"
        )
    return tuple(tasks[:count])


def validation_of(train: Sequence[Task], count: int | None) -> tuple[Task, ...]:
    """A fixed sample of the training tasks to validate on, each type in the share that it has among them.

    In BFCL the same places are drawn in every type, so that siblings (one story in four types) stay together.

    Args:
        count: about so many; None: 100, or all where there are fewer.

    Raises:
        TaskCountError: there are fewer.
    """
    first(train, count, "tasks.validation_count")
    wanted = min(len(train), VALIDATION) if count is None else count
    places: dict[str, list[int]] = defaultdict(list)
    for place, task in enumerate(train):
        places[task.type].append(place)
    chosen: list[int] = []
    for own in places.values():
        share = min(len(own), wanted, max(1, round(wanted * len(own) / len(train))))
        chosen += random.Random(_VALIDATION_SEED).sample(own, share)
    return tuple(train[place] for place in sorted(chosen))
