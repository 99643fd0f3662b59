"""What the ground truth does, once per task: results and states that every rollout of it is compared with.

A group's K rollouts share one ground truth, which depends on nothing but the task's content. Its results and
the public state after each turn are kept as read-only snapshots, so that a judge compares instead of running
everything again.
"""

from __future__ import annotations

import copy
import marshal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rods.config import SimulationConfig
from rods.simulation.isolation import copy_json
from rods.simulation.world import World
from rods.tasks.model import Call, Task, TaskType

MAX_TRUTHS = 1024
"""Tasks whose ground truth is kept: more than are in a pool of live tasks (paper: 800)."""

State = Mapping[str, Mapping[str, Any]]
"""Class name → public attribute → value, to be compared by `!=` and never changed."""


@dataclass(frozen=True, eq=False)
class TruthTurn:
    """One turn of a ground truth.

    Attributes:
        results: texts of its calls, in order.
        state: of all classes after the turn; None when it is not known, or a directory contains itself: that
            equals nothing.
    """

    results: tuple[str, ...]
    state: State | None


def truth_of(task: Task, simulation: SimulationConfig) -> tuple[TruthTurn, ...]:
    """The ground truth of `task`, turn by turn; computed once per content, not per task object.

    Raises:
        As `World`.
    """
    calls = [[(call.name, call.arguments) for call in turn.calls] for turn in task.turns]
    long_context = task.type is TaskType.LONG_CONTEXT
    content: Any = (vars(simulation), long_context, tuple(task.classes), task.initial_state, calls)
    try:
        # Version 2 writes values only; later ones also write which objects are shared.
        key = marshal.dumps(content, 2)
    except ValueError:  # a mapping that is no dict
        return _run(*content)
    return _remembered(key)


def forget() -> None:
    """Drop all that is kept: the next `truth_of` runs its ground truth."""
    _remembered.cache_clear()


@lru_cache(maxsize=MAX_TRUTHS)
def _remembered(key: bytes) -> tuple[TruthTurn, ...]:
    return _run(*marshal.loads(key))


def _run(
    simulation: dict[str, Any],
    long_context: bool,
    classes: Sequence[str],
    initial_state: Mapping[str, Any],
    turns: Sequence[Sequence[tuple[str, Mapping[str, Any]]]],
) -> tuple[TruthTurn, ...]:
    settings = SimulationConfig(**simulation)
    world = World(classes, initial_state, long_context=long_context, simulation=settings)
    with closing(world):
        return tuple(_play(world, turns))


def _play(world: World, turns: Sequence[Sequence[tuple[str, Mapping[str, Any]]]]) -> Iterator[TruthTurn]:
    state: dict[str, Mapping[str, Any]] | None = _snapshot(world, world.simulators)
    for calls in turns:
        results = tuple(world.execute(Call(name, arguments)).text for name, arguments in calls)
        touched = {world.docs[name].class_name for name, _ in calls if name in world.docs}
        changed = _snapshot(world, touched)
        state = None if state is None or changed is None else {**state, **changed}
        yield TruthTurn(results, state)


def _snapshot(world: World, classes: Iterable[str]) -> dict[str, Mapping[str, Any]] | None:
    kept: dict[str, Mapping[str, Any]] = {}
    try:
        for name in classes:
            attributes = world.simulators[name].attributes()
            if attributes is None:
                return None
            kept[name] = {key: _copy(value) for key, value in attributes.items() if not key.startswith("_")}
    except RecursionError:
        return None
    return kept


def _copy(value: Any) -> Any:
    """A copy that equals `value`; directories without their way up, which is not compared."""
    if hasattr(value, "contents"):
        twin = copy.copy(value)
        twin.parent = None
        twin.contents = {name: _copy(child) for name, child in value.contents.items()}
        return twin
    if hasattr(value, "content"):
        return copy.copy(value)
    return copy_json(value)
