"""The example of docs/worlds.md: a whole new kind of world in one file."""

from __future__ import annotations

from typing import Any

from rods.simulation.functions import FunctionDoc
from rods.simulation.isolation import ScenarioError
from rods.simulation.simulator import CallResult, Opening
from rods.tasks.model import Call

_AMOUNT = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
_NOTHING: dict[str, Any] = {"type": "object", "properties": {}}


def build(opening: Opening) -> CounterSimulator:
    """A counter that starts where the scenario says: `{"start": 3}`."""
    if set(opening.scenario) - {"start"}:
        raise ScenarioError(f"scenario of {opening.class_name}: expected start, found {opening.scenario}")
    return CounterSimulator(opening.class_name, opening.scenario.get("start", 0))


class CounterSimulator:
    """Counts, and refuses to go below zero."""

    def __init__(self, class_name: str, start: int) -> None:
        self._count = start
        self.docs = {
            "increase": FunctionDoc("increase", class_name, "Add to the counter.", _AMOUNT),
            "show": FunctionDoc("show", class_name, "The counter.", _NOTHING),
        }

    def call(self, call: Call) -> CallResult:
        amount = call.arguments.get("amount", 0)
        if self._count + amount < 0:
            return CallResult("Error: the counter cannot go below zero", True)
        self._count += amount
        return CallResult(str(self._count), False)

    def attributes(self) -> dict[str, Any]:
        return {"count": self._count}

    def state(self) -> dict[str, Any]:
        return self.attributes()

    def snapshot(self) -> int:
        return self._count

    def restore(self, snapshot: int) -> None:
        self._count = snapshot

    def close(self) -> None:
        pass
