"""A task played through for people: what each call returned and what it changed, and Φ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from rods.simulation.world import open_world
from rods.tasks.model import Call, Task, Turn
from rods.tasks.profile import Profile, profile

ABSENT = object()
"""Stands for a value that is not there."""


@dataclass(frozen=True)
class Change:
    """A place in a state (keys joined by ›) and its value before and after; ABSENT where there is none."""

    path: str
    before: Any
    after: Any


@dataclass(frozen=True)
class PlayedTurn:
    """A turn, the results of its calls, and what they changed."""

    turn: Turn
    calls: tuple[tuple[Call, str], ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Played:
    """A task with its ground truth executed on a fresh world."""

    task: Task
    turns: tuple[PlayedTurn, ...]
    profile: Profile


def play(task: Task) -> Played:
    """Run the ground truth of `task` with all functions available.

    Raises:
        RodsError: its world cannot be opened.
    """
    turns = []
    with closing(open_world(task)) as world:
        state = world.state()
        for turn in task.turns:
            calls = tuple((call, world.execute(call).text) for call in turn.calls)
            after = world.state()
            turns.append(PlayedTurn(turn, calls, tuple(changes(state, after))))
            state = after
    results = [[text for _, text in played.calls] for played in turns]
    return Played(task, tuple(turns), profile(task, results))


def changes(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[Change]:
    """The smallest places in which two JSON values differ, in order of their keys."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from changes(before.get(key, ABSENT), after.get(key, ABSENT), (*path, str(key)))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from changes(old, new, (*path, str(index)))
    elif before is ABSENT or after is ABSENT or _differ(before, after):
        yield Change(" › ".join(path), before, after)


def _differ(before: Any, after: Any) -> bool:
    """JSON's idea of equality: true is not 1."""
    return type(before) is not type(after) or before != after
