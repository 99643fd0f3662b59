"""A source's tasks, split into those trained on and those held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rods.errors import RodsError
from rods.tasks.model import Task, fingerprint


class TaskCountError(RodsError):
    """More tasks were asked for than a source has."""


@dataclass(frozen=True)
class TaskSet:
    """Seed tasks of a run.

    Attributes:
        name: the source.
        train: seed tasks that the curriculum starts from.
        heldout: tasks used for evaluation only.
        fingerprint: SHA-256 (hex) over both, in order: two runs with equal fingerprints saw equal tasks.
    """

    name: str
    train: tuple[Task, ...]
    heldout: tuple[Task, ...]
    fingerprint: str


def make(name: str, train: Sequence[Task], heldout: Sequence[Task]) -> TaskSet:
    """A task set with its fingerprint."""
    return TaskSet(name, tuple(train), tuple(heldout), fingerprint((*train, *heldout)))


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
