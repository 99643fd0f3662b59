"""Scripted answers for phrasebook seeds: the same operations in a fresh world, said as the policy learnt it.

The phrasebook composes a whole dialogue at once, since what a user says depends on the names drawn before.
Each agent composes it anew from the attempt's seed and answers with its part; the pipeline still executes,
verifies and filters every part as it would a model's.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from rods.synthesis.agents import (
    Arguments,
    MissingParameter,
    NoPatternError,
    Plan,
    PlannedTurn,
    Query,
    Rewrite,
)
from rods.synthesis.seeds import Seed
from rods.tasks import phrasebook
from rods.tasks.model import Task, TaskType, Turn
from rods.tasks.profile import Profile, distance, profile
from rods.tasks.scripted import KINDS, compose
from rods.tasks.scripted_script import Script
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


def _miss_param(inputs: Mapping[str, Any], _: random.Random) -> MissingParameter:
    """What the phrasebook leaves out of the request that the seed leaves incomplete."""
    seed: Seed = inputs["seed"]
    turn = seed.gaps[0]
    omission = _composed(inputs).omissions[turn]
    assert omission is not None
    return MissingParameter(
        turn=turn,
        function=omission.function,
        parameter=omission.parameter,
        blurred=omission.asked,
        clarification=omission.added,
    )


def _composed(inputs: Mapping[str, Any]) -> Script:
    seed: Seed = inputs["seed"]
    task = seed.task
    gap = seed.gaps[0] if seed.gaps else None
    names = phrasebook.operations(task)
    return _nearest(task.kind, names, gap, task.withheld, seed.profile, inputs["attempt_seed"])


# All agents of one attempt ask for the same dialogue; the cache only saves composing it again.
@lru_cache(maxsize=128)
def _nearest(
    kind: str,
    operations: tuple[str, ...],
    gap: int | None,
    withheld: tuple[str, ...],
    wanted: Profile,
    rng_seed: int,
) -> Script:
    """Of some draws that can be made the seed's type, the one nearest to its Φ, the first where it is equal."""
    rng = random.Random(rng_seed)
    nearest: tuple[float, Script] | None = None
    for _ in range(_DRAWS):
        script = compose(rng, kind, operations)
        turns = None if script is None else _dialogue(script, wanted.type, gap, withheld)
        if script is None or turns is None:
            continue
        apart = _distance(script.task(wanted.type, turns, withheld), wanted)
        if nearest is None or apart < nearest[0]:
            nearest = (apart, script)
        if apart == 0:
            break
    if nearest is None:
        raise NoPatternError(f"no world in {_DRAWS} draws allows the operations {', '.join(operations)}")
    return nearest[1]


def _dialogue(
    script: Script, type: TaskType, gap: int | None, withheld: tuple[str, ...]
) -> tuple[Turn, ...] | None:
    """The turns as the seed's type has them; None where the drawn words cannot be said so."""
    if type is TaskType.MISS_PARAM and gap is not None:
        return script.without_value(gap)
    if type is TaskType.MISS_FUNC and gap is not None:
        return script.without_function(gap, withheld[0])
    return script.turns


def _distance(task: Task, wanted: Profile) -> float:
    world = LiveWorld.open(task.initial_state)
    results = [[world.execute(call) for call in turn.calls] for turn in task.turns]
    return distance(profile(task, results), wanted)


RULES = {
    "planner": _plan,
    "arguments": _arguments,
    "query": _query,
    "rewriter": _rewrite,
    "miss_param": _miss_param,
}
