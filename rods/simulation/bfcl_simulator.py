"""One of BFCL's eight simulators, isolated, behind the interface of all simulators."""

from __future__ import annotations

import json
import marshal
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from rods.simulation.calls import CallError
from rods.simulation.functions import documentation
from rods.simulation.isolation import contained, copy_json, method, new_instance
from rods.simulation.limits import guard
from rods.simulation.simulator import CallResult, Opening
from rods.tasks.model import Call

_LARGE = 1_000  # bytes of a result that is worth remembering
_KEPT_TEXTS = 512


def build(opening: Opening) -> BfclSimulator:
    """The simulator of a BFCL class with its scenario loaded.

    Raises:
        UnknownClassError: a class that is not simulated.
        ScenarioError: a scenario that the simulator refuses.
        BfclMissingError: bfcl-eval is not installed.
    """
    return BfclSimulator(opening)


class BfclSimulator:
    """Holds the official instance and runs its methods; results are as the official executor renders them.

    Attributes:
        docs: the documented functions of the class.
        instance: the official simulator.
    """

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self.docs = documentation((opening.class_name,))
        self._start()

    def call(self, call: Call) -> CallResult:
        """As `Simulator.call`."""
        try:
            guard(call.name, call.arguments, self.instance)
        except CallError as error:
            return CallResult(f"Error during execution: {error}", True)
        self._calls.append(call)
        function = self._methods.get(call.name)
        if function is None:
            function = method(self.instance, self._opening.class_name, call.name)
            self._methods[call.name] = function
        with contained(self._opening.class_name):
            try:
                # Simulators keep and change the arguments they get: they must not be the caller's.
                result = function(**copy_json(dict(call.arguments)))
                return CallResult(_render(result), _is_error(result))
            except Exception as error:  # noqa: BLE001 - whatever a simulator raises is the call's result
                return CallResult(f"Error during execution: {error}", True)

    def attributes(self) -> dict[str, Any]:
        """As `Simulator.attributes`: those of the instance, as BFCL compares them."""
        return vars(self.instance)

    def state(self) -> dict[str, Any]:
        """The public attributes as JSON data; file trees have the form of BFCL's scenarios."""
        return {
            name: _to_json(value) for name, value in vars(self.instance).items() if not name.startswith("_")
        }

    def snapshot(self) -> tuple[Call, ...]:
        """The calls so far: making them again is exact, also where methods keep state of their own."""
        return tuple(self._calls)

    def restore(self, snapshot: tuple[Call, ...]) -> None:
        """As `Simulator.restore`."""
        self._start()
        for call in snapshot:
            self.call(call)

    def close(self) -> None:
        """Nothing to give back."""

    def _start(self) -> None:
        opening = self._opening
        self.instance = new_instance(opening.class_name, opening.scenario, opening.long_context)
        self._methods: dict[str, Callable[..., Any]] = {}
        self._calls: list[Call] = []


def _render(result: Any) -> str:
    """As BFCL's `execute_multi_turn_func_call`: text as it is, objects as JSON where possible, else `str`."""
    if type(result) is not dict:
        return str(result)
    try:
        # Rendering numbers is the dearest part of a check (stock histories), and rollouts repeat calls: equal
        # bytes are equal values in equal order, and reading them off is cheap.
        content = marshal.dumps(result, 2)
        return json.dumps(result) if len(content) < _LARGE else _rendered(content)
    except (TypeError, ValueError):
        return str(result)


@lru_cache(maxsize=_KEPT_TEXTS)
def _rendered(content: bytes) -> str:
    return json.dumps(marshal.loads(content))


def _is_error(result: Any) -> bool:
    if isinstance(result, list) and len(result) == 1:
        result = result[0]
    return isinstance(result, dict) and "error" in result


def _to_json(value: Any, inside: tuple[int, ...] = ()) -> Any:
    """JSON data of a simulator's attribute. A directory that contains itself is cut where it recurs."""
    if isinstance(value, dict):
        return {key: _to_json(item, inside) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(item, inside) for item in value]
    if isinstance(value, set):
        return sorted(value)
    if hasattr(value, "contents"):
        contents = {} if id(value) in inside else _to_json(value.contents, (*inside, id(value)))
        entry = {"type": "directory", "contents": contents}
        return entry if inside else {value.name: entry}
    if hasattr(value, "content"):
        return {"type": "file", "content": value.content}
    return value
