"""What can be simulated: the one interface behind which every kind of world stands.

A `World` holds one simulator per class of its task and asks it nothing beyond this file, so the session, the
judge, the rewards and synthesis work on any of them. A new kind is one file with a `build` function and one
line in `SIMULATORS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from rods.config import SimulationConfig
from rods.registry import Registry
from rods.simulation.functions import FunctionDoc
from rods.tasks.model import Call

SIMULATORS = Registry(
    "kind of simulator",
    {"bfcl": "rods.simulation.bfcl_simulator:build", "mcp": "rods.simulation.mcp_world:build"},
)


@dataclass(frozen=True)
class CallResult:
    """What a call gave back.

    Attributes:
        text: the result as the policy reads it.
        failed: the call was refused, the simulator raised, or it returned an error.
        refused: why it never reached a simulator: "unknown_function" or "bad_arguments"; "" when it did.
    """

    text: str
    failed: bool
    refused: str = ""


@dataclass(frozen=True)
class Opening:
    """What a simulator is built from.

    Attributes:
        class_name: as in `Task.classes`: "GorillaFileSystem", "mcp:git".
        scenario: the class's entry of `Task.initial_state`, `{}` where there is none. Not changed.
        long_context: fill the world with BFCL's long-context extensions.
        simulation: the run's settings.
    """

    class_name: str
    scenario: Any
    long_context: bool = False
    simulation: SimulationConfig = field(default_factory=SimulationConfig)


class Simulator(Protocol):
    """One simulated class in one world. What happens in it is seen by no other simulator."""

    @property
    def docs(self) -> Mapping[str, FunctionDoc]:
        """Its functions by name, with JSON schemas. Shared: not to be changed."""

    def call(self, call: Call) -> CallResult:
        """Run a call that agrees with the schema of its function. Errors are results: it raises nothing."""

    def attributes(self) -> Mapping[str, Any] | None:
        """The state that decides whether a turn was done, by name, to be compared by `==`.

        Names that start with `_` are private and not compared. Not copied: read it before the next call.
        None when the state is not known, which equals nothing.
        """

    def state(self) -> dict[str, Any]:
        """The same as JSON data, for people and for synthesis."""

    def snapshot(self) -> Any:
        """A value from which `restore` brings back the present state, in this simulator, any number of times."""

    def restore(self, snapshot: Any) -> None:
        """Go back to the state in which `snapshot` was taken."""

    def close(self) -> None:
        """Give back processes and files; harmless when repeated. The simulator is not used again."""


def open_simulator(opening: Opening) -> Simulator:
    """The simulator of one class: the kind before the colon of its name; a plain name is one of BFCL's.

    Raises:
        UnknownNameError: no such kind.
        UnknownClassError, ScenarioError, BfclMissingError: as the kind's `build`.
    """
    kind, colon, _ = opening.class_name.partition(":")
    build: Callable[[Opening], Simulator] = SIMULATORS.get(kind if colon else "bfcl")
    return build(opening)
