"""What the tiny policy imitates: episodes of scripted tasks, solved well or with a scripted person's faults.

A start that solves everything leaves reinforcement learning nothing to do, and one that solves nothing
gives it no signal. Demonstrations of mixed quality place the policy between: each operation has its own
rate of faults, from hardly any to nearly always, so that mastered, boundary and hard tasks all exist from
the first step. The faults are those of a careless tool user (stopping early, taking a neighbouring tool);
every result shown is the simulator's own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from rods.tasks.model import Call, Task
from rods.tasks.phrasebook import operations
from rods.tasks.scripted_slots import MODES
from rods.tasks.scripted_world import FileWorld

FAULT_RATES = {
    **dict.fromkeys(("cat", "ls", "pwd", "cd", "up"), 0.03),
    **dict.fromkeys(("touch", "mkdir"), 0.08),
    **dict.fromkeys(("tail", "cd_cat"), 0.1),
    **{"rm": 0.2, "rename": 0.3, "sort": 0.35, "echo": 0.35},
    **dict.fromkeys(("cp_as", "mv_into", "cd_sort"), 0.4),
    **dict.fromkeys(("wc", "grep"), 0.45),
    **dict.fromkeys(("cp_into", "diff", "find", "write_new", "mk_mv", "cd_wc"), 0.5),
    **dict.fromkeys(("mk_cp", "visit"), 0.6),
    **dict.fromkeys(("touch3", "rm2"), 0.7),
    **{"cat2": 0.75, "dep_count": 0.75, "dep_copy": 0.85, "dep_sort": 0.85, "dep_new": 0.9},
}
"""Operation → probability that a demonstrated turn of it goes wrong."""


@dataclass(frozen=True)
class ShownTurn:
    """One turn as the policy sees it: the query, the calls made, and the simulator's result of each."""

    query: str
    calls: tuple[Call, ...]
    results: tuple[str, ...]


def solved(task: Task) -> tuple[ShownTurn, ...]:
    """The task's ground truth, carried out."""
    return _carry_out(task, [turn.calls for turn in task.turns])


def mixed(task: Task, rng: random.Random) -> tuple[ShownTurn, ...]:
    """The task carried out with faults at the rates of `FAULT_RATES`.

    Raises:
        UnknownOperationError: the task is not a scripted one.
    """
    calls = [
        _faulty(turn.calls, rng) if rng.random() < FAULT_RATES[operation] else turn.calls
        for operation, turn in zip(operations(task), task.turns, strict=True)
    ]
    return _carry_out(task, calls)


def _carry_out(task: Task, calls_by_turn: Sequence[Sequence[Call]]) -> tuple[ShownTurn, ...]:
    world = FileWorld.open(task.initial_state)
    return tuple(
        ShownTurn(turn.query, tuple(calls), tuple(world.execute(call) for call in calls))
        for turn, calls in zip(task.turns, calls_by_turn, strict=True)
    )


def _faulty(calls: Sequence[Call], rng: random.Random) -> tuple[Call, ...]:
    """Stops early (mostly so where there are several calls), or does one call with a neighbouring tool."""
    stops = 0.72 if len(calls) > 1 else 0.3
    if rng.random() < stops:
        return tuple(calls[: rng.randrange(len(calls))])
    index = rng.randrange(len(calls))
    return (*calls[:index], _neighbour(calls[index], rng), *calls[index + 1 :])


def _neighbour(call: Call, rng: random.Random) -> Call:
    """The same intent with a tool or mode next to the right one."""
    given = call.arguments
    file = given.get("file_name") or given.get("file_name1")
    match call.name:
        case "mv" | "cp":
            return Call("cp" if call.name == "mv" else "mv", given)
        case "wc":
            return Call(
                "wc", {"file_name": file, "mode": rng.choice([m for m in MODES if m != given["mode"]])}
            )
        case "touch":
            return Call("mkdir", {"dir_name": file})
        case "mkdir":
            return Call("touch", {"file_name": given["dir_name"]})
        case "cat":
            return Call("tail", {"file_name": file, "lines": 1})
        case "sort" | "grep" | "diff" | "tail" | "rm" | "echo":
            return Call("cat", {"file_name": file})
        case "find":
            return Call("find", {"path": ".", "name": f"{given['name']}.txt"})
        case _:
            return Call("pwd" if call.name == "ls" else "ls", {})
