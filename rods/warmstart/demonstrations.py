"""What the tiny policy imitates: scripted tasks carried out as their ground truth says.

Where something is missing the right act is to say so and to call nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rods.simulation.functions import documentation
from rods.tasks.model import Call, Task, TaskType
from rods.tasks.scripted_world import LiveWorld

ANSWERS: Mapping[TaskType, str] = {
    TaskType.MISS_FUNC: "I have no tool for that.",
    TaskType.MISS_PARAM: "Please tell me more.",
}
"""What the policy says in a turn without calls."""
DONE = "Done."


@dataclass(frozen=True)
class ShownTurn:
    """One turn as the policy sees it.

    Attributes:
        query: of the user.
        restored: documentation of the tools that come with it.
        calls: the calls made.
        results: the simulator's result of each.
        answer: what the policy says at the end.
    """

    query: str
    restored: tuple[Mapping[str, Any], ...]
    calls: tuple[Call, ...]
    results: tuple[str, ...]
    answer: str


@dataclass(frozen=True)
class Demonstration:
    """An episode: documentation of the tools that are there from the start, and the turns."""

    tools: tuple[Mapping[str, Any], ...]
    turns: tuple[ShownTurn, ...]


def solved(task: Task) -> Demonstration:
    """The task's ground truth, carried out."""
    docs = documentation(task.classes)
    world = LiveWorld.open(task.initial_state)
    turns = tuple(
        ShownTurn(
            turn.query,
            tuple(docs[name].to_tool() for name in turn.restored),
            turn.calls,
            tuple(world.execute(call) for call in turn.calls),
            DONE if turn.calls else ANSWERS[task.type],
        )
        for turn in task.turns
    )
    tools = tuple(doc.to_tool() for name, doc in docs.items() if name not in task.withheld)
    return Demonstration(tools, turns)
