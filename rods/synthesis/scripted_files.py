"""Scripted answers for phrasebook seeds: the same operations in a fresh workspace, said as the policy
learnt it.

The phrasebook composes a whole task at once, since what a user says depends on the names drawn before. Each
agent composes it anew from the attempt's seed and answers with its part; the pipeline still executes,
verifies and filters every part as it would a model's.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from rods.synthesis.agents import Arguments, NoPatternError, Plan, PlannedTurn, Query, Rewrite
from rods.synthesis.seeds import Seed
from rods.tasks import phrasebook
from rods.tasks.model import Task
from rods.tasks.profile import Profile, distance, profile
from rods.tasks.scripted import KINDS, compose
from rods.tasks.scripted_world import FileWorld

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
    task = _composed(inputs)
    turns = [PlannedTurn(functions=[call.name for call in turn.calls]) for turn in task.turns]
    narrative = f"Another user does the work of {task.kind!r} in a workspace of their own."
    return Plan(narrative=narrative, turns=turns, initial_state=dict(task.initial_state))


def _arguments(inputs: Mapping[str, Any], _: random.Random) -> Arguments:
    call = _composed(inputs).turns[inputs["turn"]].calls[len(inputs["calls"])]
    return Arguments(arguments=dict(call.arguments))


def _query(inputs: Mapping[str, Any], _: random.Random) -> Query:
    return Query(text=_composed(inputs).turns[inputs["turn"]].query)


def _rewrite(inputs: Mapping[str, Any], _: random.Random) -> Rewrite:
    """Unchanged: references across turns are said already, and other words are not the policy's."""
    return Rewrite(queries=list(inputs["draft"].queries))


def _composed(inputs: Mapping[str, Any]) -> Task:
    seed: Seed = inputs["seed"]
    return _nearest(seed.task.kind, phrasebook.operations(seed.task), seed.profile, inputs["attempt_seed"])


# All agents of one attempt ask for the same task; the cache only saves composing it again.
@lru_cache(maxsize=128)
def _nearest(kind: str, operations: tuple[str, ...], wanted: Profile, rng_seed: int) -> Task:
    """Of some draws the task nearest to the seed's Φ, the first where it is equal."""
    rng = random.Random(rng_seed)
    nearest: tuple[float, Task] | None = None
    for _ in range(_DRAWS):
        task = compose(rng, kind, operations)
        if task is None:
            continue
        apart = _distance(task, wanted)
        if nearest is None or apart < nearest[0]:
            nearest = (apart, task)
        if apart == 0:
            break
    if nearest is None:
        raise NoPatternError(f"no workspace in {_DRAWS} draws allows the operations {', '.join(operations)}")
    return nearest[1]


def _distance(task: Task, wanted: Profile) -> float:
    world = FileWorld.open(task.initial_state)
    results = [[world.execute(call) for call in turn.calls] for turn in task.turns]
    return distance(profile(task, results), wanted)


RULES = {"planner": _plan, "arguments": _arguments, "query": _query, "rewriter": _rewrite}
