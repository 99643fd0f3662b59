"""A seed as the pipeline reads it: its ground truth executed, its empty turns folded away, its profile taken.

The adversarial types are a base dialogue plus a turn in which the right answer is not to call. Stages 1 to
4 work on the base dialogue (the *skeleton*); stage 5 puts such a turn back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rods.simulation.functions import FunctionDoc
from rods.simulation.session import open_world
from rods.synthesis.depth import Target
from rods.tasks.model import Call, Task
from rods.tasks.profile import Profile, profile


@dataclass(frozen=True)
class SkeletonTurn:
    """A turn with calls: all that the user said up to them, the calls, and their result texts."""

    query: str
    calls: tuple[Call, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Seed:
    """A seed task with what the stages need to know of it.

    Attributes:
        task: the task itself.
        turns: its skeleton.
        gaps: indices of skeleton turns that had an empty turn before them.
        profile: Φ of the task, empty turns included.
        docs: documentation of every function of its classes, by name.
        shift: 1 where its variants shall be one step deeper (`depth`), -1 where shallower, 0 where like it.
    """

    task: Task
    turns: tuple[SkeletonTurn, ...]
    gaps: tuple[int, ...]
    profile: Profile
    docs: Mapping[str, FunctionDoc]
    shift: int = 0

    @property
    def target(self) -> Target:
        """The Φ that its variants shall have."""
        return Target(self.profile, self.shift)


def read_seed(task: Task, shift: int = 0) -> Seed:
    """Execute a task's ground truth on a fresh world and read its skeleton and profile; `shift` as in `Seed`."""
    world = open_world(task)
    results = [[world.execute(call).text for call in turn.calls] for turn in task.turns]
    turns: list[SkeletonTurn] = []
    gaps: list[int] = []
    said: list[str] = []
    for turn, texts in zip(task.turns, results, strict=True):
        said.append(turn.query)
        if turn.calls:
            if len(said) > 1:
                gaps.append(len(turns))
            turns.append(SkeletonTurn("\n".join(said), turn.calls, tuple(texts)))
            said = []
    return Seed(task, tuple(turns), tuple(gaps), profile(task, results), world.docs, shift)
