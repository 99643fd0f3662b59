"""A world: the simulated APIs of one rollout, and the only way to call them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rods.config import SimulationConfig
from rods.errors import RodsError
from rods.simulation import calls, official_types
from rods.simulation.calls import CallError
from rods.simulation.functions import FunctionDoc
from rods.simulation.simulator import CallResult, Opening, Simulator, open_simulator
from rods.tasks.model import Call, Origin, Task, TaskType

_DEFAULTS = SimulationConfig()
_VALIDATORS = {"schema": calls.validate, "official": official_types.validate}


class FunctionClashError(RodsError):
    """Two classes of one world that have a function of the same name."""


class World:
    """The simulators of one rollout, isolated from every other world.

    Args:
        classes: the API classes involved.
        initial_state: class name → scenario; a class without one gets the simulator's default. Not changed.
        long_context: fill the world with BFCL's long-context extensions.
        withheld: functions that do not exist until `restore` brings them back.
        simulation: the run's settings.

    Raises:
        UnknownClassError, UnknownNameError: a class that is not simulated.
        ScenarioError: a scenario that its simulator refuses.
        BfclMissingError: bfcl-eval is not installed.
        FunctionClashError: a function's name occurs in two classes.
    """

    def __init__(
        self,
        classes: Sequence[str],
        initial_state: Mapping[str, Any],
        *,
        long_context: bool = False,
        withheld: Iterable[str] = (),
        simulation: SimulationConfig = _DEFAULTS,
    ) -> None:
        self.simulators: dict[str, Simulator] = {
            name: open_simulator(Opening(name, initial_state.get(name, {}), long_context, simulation))
            for name in classes
        }
        self._all_docs = _merged(self.simulators)
        self._withheld = frozenset(withheld)
        self._validate = _VALIDATORS[simulation.types]
        self.docs: Mapping[str, FunctionDoc] = self._visible()

    def restore(self, names: Iterable[str]) -> tuple[FunctionDoc, ...]:
        """Bring back withheld functions; their documentation. A name that is not withheld is ignored."""
        back = self._withheld.intersection(names)
        self._withheld -= back
        self.docs = self._visible()
        return tuple(doc for name, doc in self._all_docs.items() if name in back)

    def execute(self, call: Call) -> CallResult:
        """Run one call. Never raises for anything that the call contains: errors are results."""
        try:
            self._validate(call, self.docs)
        except CallError as error:
            refused = "bad_arguments" if call.name in self.docs else "unknown_function"
            return CallResult(f"Error during execution: {error}", True, refused)
        return self.simulators[self.docs[call.name].class_name].call(call)

    def state(self) -> dict[str, dict[str, Any]]:
        """Class name → its state as JSON data."""
        return {name: simulator.state() for name, simulator in self.simulators.items()}

    def close(self) -> None:
        """Give back what the simulators hold; harmless when repeated."""
        for simulator in self.simulators.values():
            simulator.close()

    def _visible(self) -> Mapping[str, FunctionDoc]:
        if not self._withheld:
            return self._all_docs
        return {name: doc for name, doc in self._all_docs.items() if name not in self._withheld}


def open_world(
    task: Task, *, withheld: Iterable[str] = (), simulation: SimulationConfig = _DEFAULTS
) -> World:
    """The world in which `task` begins.

    Raises:
        As `World`.
    """
    long_context = task.type is TaskType.LONG_CONTEXT
    return World(
        task.classes,
        task.initial_state,
        long_context=long_context,
        withheld=withheld,
        simulation=settings_for(task, simulation),
    )


def settings_for(task: Task, simulation: SimulationConfig) -> SimulationConfig:
    """The settings under which `task` may run: a variant, which a model may have written, starts no server."""
    if task.origin is Origin.VARIANT and simulation.mcp != "replay":
        return replace(simulation, mcp="replay")
    return simulation


def _merged(simulators: Mapping[str, Simulator]) -> dict[str, FunctionDoc]:
    docs: dict[str, FunctionDoc] = {}
    for class_name, simulator in simulators.items():
        before = len(docs)
        docs.update(simulator.docs)
        if len(docs) != before + len(simulator.docs):
            others = {
                name: other for other in simulators for name in simulators[other].docs if other != class_name
            }
            clash = min(others.keys() & simulator.docs.keys())
            raise FunctionClashError(
                f"{class_name} and {others[clash]} both have a function {clash}: a task needs classes whose "
                "functions have different names"
            )
    return docs
