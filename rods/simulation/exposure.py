"""What a policy that follows the ground truth gets to see; the audit of tasks judges by it."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from rods.simulation.world import open_world
from rods.tasks.model import Task


@dataclass(frozen=True)
class Exposure:
    """Everything visible in one dialogue.

    Attributes:
        results: texts of the ground truth's results, per turn.
        states: the world's public state before each turn, as JSON text.
        tools: documentation of all functions of the task, withheld ones included.
    """

    results: tuple[tuple[str, ...], ...]
    states: tuple[str, ...]
    tools: tuple[dict[str, Any], ...]


def expose(task: Task) -> Exposure:
    """Run the ground truth of `task` and write down what it shows.

    Raises:
        As `World`.
    """
    results, states = [], []
    with closing(open_world(task)) as world:
        for turn in task.turns:
            states.append(json.dumps(world.state(), ensure_ascii=False, default=str))
            results.append(tuple(world.execute(call).text for call in turn.calls))
        tools = tuple(doc.to_tool() for doc in world.docs.values())
    return Exposure(tuple(results), tuple(states), tools)
