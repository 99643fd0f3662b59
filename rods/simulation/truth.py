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
from rods.errors import RodsError
from rods.simulation.isolation import copy_json
from rods.simulation.world import World, settings_for
from rods.tasks.model import Call, Task, TaskType

MAX_TRUTHS = 1024
"""Tasks whose ground truth is kept: more than are in a pool of live tasks (paper: 800)."""

State = Mapping[str, Mapping[str, Any]]
"""Class name → public attribute → value, to be compared by `!=` and never changed."""


class TruthUnknownError(RodsError):
    """A ground truth that cannot be followed, so that no rollout of its task could be judged."""


@dataclass(frozen=True, eq=False)
class TruthTurn:
    """One turn of a ground truth.

    Attributes:
        results: texts of its calls, in order.
        state: of all classes after the turn; None when a directory contains itself, which equals nothing.
    """

    results: tuple[str, ...]
    state: State | None


def truth_of(task: Task, simulation: SimulationConfig) -> tuple[TruthTurn, ...]:
    """The ground truth of `task`, turn by turn; computed once per content, not per task object.

    Raises:
        TruthUnknownError: a simulator cannot follow it (an MCP world that is not recorded so far).
        As `World`.
    """
    calls = [[(call.name, call.arguments) for call in turn.calls] for turn in task.turns]
    long_context = task.type is TaskType.LONG_CONTEXT
    settings = vars(settings_for(task, simulation))
    content: Any = (settings, long_context, tuple(task.classes), task.initial_state, calls)
    try:
        # Version 2 writes values only; later ones also write which objects are shared.
        key = marshal.dumps(content, 2)
    except ValueError:  # a mapping that is no dict
        key = None
    try:
        return _run(*content) if key is None else _remembered(key)
    except TruthUnknownError as error:
        raise TruthUnknownError(f"task {task.id}: {error}") from error


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
    state: dict[str, Mapping[str, Any]] | None = _snapshot(world, world.simulators, ())
    for calls in turns:
        results = tuple(world.execute(Call(name, arguments)).text for name, arguments in calls)
        touched = {world.docs[name].class_name for name, _ in calls if name in world.docs}
        changed = _snapshot(world, touched, results)
        state = None if state is None or changed is None else {**state, **changed}
        yield TruthTurn(results, state)


def _snapshot(
    world: World, classes: Iterable[str], results: Sequence[str]
) -> dict[str, Mapping[str, Any]] | None:
    kept: dict[str, Mapping[str, Any]] = {}
    try:
        for name in classes:
            attributes = world.simulators[name].attributes()
            if attributes is None:
                raise TruthUnknownError(
                    f"the state of {name} is not known after a turn of the ground truth whose results are "
                    f"{list(results)}; record the task's worlds (docs/worlds.md)"
                )
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
