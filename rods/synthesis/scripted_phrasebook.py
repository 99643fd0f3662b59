"""Scripted answers for phrasebook seeds: the same operations in a fresh world, said as the policy learnt it.

The phrasebook composes a whole dialogue at once, since what a user says depends on the names drawn before.
Each agent composes it anew from the attempt's seed and answers with its part; the pipeline still executes,
verifies and filters every part as it would a model's.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rods.synthesis.agents import (
    Arguments,
    MissingFunction,
    MissingParameter,
    NoPatternError,
    Plan,
    PlannedTurn,
    Query,
    Rewrite,
)
from rods.synthesis.context import Draft
from rods.synthesis.depth import Target
from rods.synthesis.planner import Outline
from rods.synthesis.seeds import Seed
from rods.tasks import phrasebook
from rods.tasks.model import Task, TaskType, Turn
from rods.tasks.profile import profile
from rods.tasks.scripted import KINDS
from rods.tasks.scripted_script import Script, write, write_in
from rods.tasks.scripted_world import LiveWorld

_DRAWS = 40


def applies(task: Task) -> bool:
    """Whether the phrasebook made this task."""
    if task.kind not in KINDS:
        return False
    try:
        phrasebook.operations(task)
    except phrasebook.UnknownOperationError:
        return False
    return True


def _plan(inputs: Mapping[str, Any], _: random.Random) -> Plan:
    script = _composed(inputs)
    turns = [PlannedTurn(functions=[call.name for call in turn.calls]) for turn in script.turns]
    narrative = f"Another user does the work of {script.kind!r} in a world of their own."
    return Plan(narrative=narrative, turns=turns, initial_state=dict(script.state))


def _arguments(inputs: Mapping[str, Any], _: random.Random) -> Arguments:
    call = _composed(inputs).turns[inputs["turn"]].calls[len(inputs["calls"])]
    return Arguments(arguments=dict(call.arguments))


def _query(inputs: Mapping[str, Any], _: random.Random) -> Query:
    return Query(text=_composed(inputs).turns[inputs["turn"]].query)


def _rewrite(inputs: Mapping[str, Any], _: random.Random) -> Rewrite:
    """Unchanged: references across turns are said already, and other words are not the policy's."""
    return Rewrite(queries=list(inputs["draft"].queries))


def _miss_func(inputs: Mapping[str, Any], _: random.Random) -> MissingFunction:
    """What the seed withholds, where it withholds it."""
    order = _ordered(inputs)
    assert order.gap is not None
    return MissingFunction(turn=order.gap, function=order.withheld[0])


def _miss_param(inputs: Mapping[str, Any], _: random.Random) -> MissingParameter:
    """What the phrasebook leaves out of the request that the seed leaves incomplete."""
    order = _ordered(inputs)
    assert order.gap is not None
    omission = _nearest(order).omissions[order.gap]
    assert omission is not None
    return MissingParameter(
        turn=order.gap,
        function=omission.function,
        parameter=omission.parameter,
        blurred=omission.asked,
        clarification=omission.added,
    )


@dataclass(frozen=True)
class _Order:
    """What a dialogue is wanted for.

    Attributes:
        kind: the seed's.
        gap: the request that the seed leaves incomplete, or withholds a function from; None for neither.
        withheld: the seed's withheld functions.
        choices: per turn, the operations that may be drawn.
        state: JSON of the world that it must run in; "" for a fresh one.
        target: the Φ that it shall have.
        rng_seed: of all draws.
    """

    kind: str
    gap: int | None
    withheld: tuple[str, ...]
    choices: tuple[tuple[str, ...], ...]
    state: str
    target: Target
    rng_seed: int


def _composed(inputs: Mapping[str, Any]) -> Script:
    return _nearest(_ordered(inputs))


def _ordered(inputs: Mapping[str, Any]) -> _Order:
    """The attempt's order. Without a planner it is for the functions that were sampled, in the seed's own world."""
    seed: Seed = inputs["seed"]
    told: Draft | Outline | None = inputs.get("draft") or inputs.get("outline")
    if told is None or told.narrative:
        (choices, gap), state = _operations(seed), ""
    else:
        choices, state = tuple(map(_fitting, _functions(told))), json.dumps(told.initial_state)
        gap = _gap(seed)
    task = seed.task
    return _Order(task.kind, gap, task.withheld, choices, state, seed.target, inputs["attempt_seed"])


def _gap(seed: Seed) -> int | None:
    return seed.gaps[0] if seed.gaps else None


def _operations(seed: Seed) -> tuple[tuple[tuple[str, ...], ...], int | None]:
    """The seed's operations and its gap; with one more of its kind, or one fewer, where variants differ by a step.

    Raises:
        NoPatternError: nothing can be left out.
    """
    own, gap = tuple((name,) for name in phrasebook.operations(seed.task)), _gap(seed)
    if seed.shift > 0:
        return (*own, tuple(KINDS[seed.task.kind].operations)), gap
    if seed.shift == 0:
        return own, gap
    if len(own) < 2:
        raise NoPatternError("nothing can be left out of a single request")
    if gap == len(own) - 1:
        return own[1:], gap - 1
    return own[:-1], gap


def _functions(told: Draft | Outline) -> tuple[tuple[str, ...], ...]:
    if isinstance(told, Outline):
        return told.functions
    return tuple(tuple(call.name for call in turn.calls) for turn in told.turns)


def _fitting(functions: tuple[str, ...]) -> tuple[str, ...]:
    """The operations that call just these functions.

    Raises:
        NoPatternError: there is none.
    """
    found = tuple(
        name
        for name, entry in phrasebook.OPERATIONS.items()
        if tuple(function for function, _ in entry.pattern) == functions
    )
    if not found:
        raise NoPatternError(f"no operation of the phrasebook calls {', '.join(functions)}")
    return found


# All agents of one attempt ask for the same dialogue; the cache only saves composing it again.
@lru_cache(maxsize=128)
def _nearest(order: _Order) -> Script:
    """Of some draws that can be made the seed's type, the one nearest to the target Φ, the first where it is equal."""
    rng = random.Random(order.rng_seed)
    type = order.target.seed.type
    nearest: tuple[float, Script] | None = None
    for _ in range(_DRAWS):
        script = _drawn(order, rng)
        turns = None if script is None else _dialogue(script, type, order.gap, order.withheld)
        if script is None or turns is None:
            continue
        apart = _distance(script.task(type, turns, order.withheld), order.target)
        if nearest is None or apart < nearest[0]:
            nearest = (apart, script)
        if apart == 0:
            break
    if nearest is None:
        wanted = "; ".join("/".join(names) for names in order.choices)
        raise NoPatternError(f"no world in {_DRAWS} draws allows the operations {wanted}")
    return nearest[1]


def _drawn(order: _Order, rng: random.Random) -> Script | None:
    if order.state:
        return write_in(rng, order.kind, json.loads(order.state), order.choices)
    return write(rng, order.kind, KINDS[order.kind].classes, order.choices)


def _dialogue(
    script: Script, type: TaskType, gap: int | None, withheld: tuple[str, ...]
) -> tuple[Turn, ...] | None:
    """The turns as the seed's type has them; None where the drawn words cannot be said so."""
    if type is TaskType.MISS_PARAM and gap is not None:
        return script.without_value(gap)
    if type is TaskType.MISS_FUNC and gap is not None:
        return script.without_function(gap, withheld[0])
    return script.turns


def _distance(task: Task, target: Target) -> float:
    world = LiveWorld.open(task.initial_state)
    results = [[world.execute(call) for call in turn.calls] for turn in task.turns]
    return target.distance(profile(task, results))


RULES = {
    "planner": _plan,
    "arguments": _arguments,
    "query": _query,
    "rewriter": _rewrite,
    "miss_func": _miss_func,
    "miss_param": _miss_param,
}
