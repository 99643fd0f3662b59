"""A world: the simulated APIs of one rollout, and the only way to call them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rods.simulation.calls import CallError, validate
from rods.simulation.functions import FunctionDoc, documentation
from rods.simulation.isolation import contained, copy_json, method, new_instance
from rods.simulation.limits import guard
from rods.tasks.model import Call, Task, TaskType


@dataclass(frozen=True)
class CallResult:
    """What a call gave back.

    Attributes:
        text: the result as the official executor renders it.
        failed: the call was refused, the simulator raised, or it returned an error.
    """

    text: str
    failed: bool


class World:
    """The simulators of one rollout, isolated from every other world.

    Args:
        classes: the API classes involved.
        initial_state: class name → scenario; a class without one gets the simulator's default. Not changed.
        long_context: fill the world with BFCL's long-context extensions.
        withheld: functions that do not exist until `restore` brings them back.

    Raises:
        UnknownClassError: a class that is not simulated.
        ScenarioError: a scenario that its simulator refuses.
        BfclMissingError: bfcl-eval is not installed.
    """

    def __init__(
        self,
        classes: Sequence[str],
        initial_state: Mapping[str, Any],
        *,
        long_context: bool = False,
        withheld: Iterable[str] = (),
    ) -> None:
        self._all_docs = documentation(classes)
        self._withheld = frozenset(withheld)
        self.docs: Mapping[str, FunctionDoc] = self._visible()
        self.instances: dict[str, Any] = {
            name: new_instance(name, initial_state.get(name, {}), long_context) for name in classes
        }
        self._methods: dict[str, Callable[..., Any]] = {}

    def restore(self, names: Iterable[str]) -> tuple[FunctionDoc, ...]:
        """Bring back withheld functions; their documentation. A name that is not withheld is ignored."""
        back = self._withheld.intersection(names)
        self._withheld -= back
        self.docs = self._visible()
        return tuple(doc for name, doc in self._all_docs.items() if name in back)

    def execute(self, call: Call) -> CallResult:
        """Run one call. Never raises for anything that the call contains: errors are results."""
        try:
            validate(call, self.docs)
            doc = self.docs[call.name]
            guard(call.name, call.arguments, self.instances[doc.class_name])
        except CallError as error:
            return CallResult(f"Error during execution: {error}", True)
        return self._run(doc, call.arguments)

    def state(self) -> dict[str, dict[str, Any]]:
        """Class name → its public attributes as JSON data; file trees have the form of BFCL's scenarios."""
        return {name: _public_state(instance) for name, instance in self.instances.items()}

    def _visible(self) -> Mapping[str, FunctionDoc]:
        if not self._withheld:
            return self._all_docs
        return {name: doc for name, doc in self._all_docs.items() if name not in self._withheld}

    def _run(self, doc: FunctionDoc, arguments: Mapping[str, Any]) -> CallResult:
        function = self._methods.get(doc.name)
        if function is None:
            function = method(self.instances[doc.class_name], doc.class_name, doc.name)
            self._methods[doc.name] = function
        with contained(doc.class_name):
            try:
                # Simulators keep and change the arguments they get: they must not be the caller's.
                result = function(**copy_json(dict(arguments)))
                return CallResult(_render(result), _is_error(result))
            except Exception as error:  # noqa: BLE001 - whatever a simulator raises is the call's result
                return CallResult(f"Error during execution: {error}", True)


def open_world(task: Task, *, withheld: Iterable[str] = ()) -> World:
    """The world in which `task` begins.

    Raises:
        UnknownClassError, ScenarioError, BfclMissingError: as `World`.
    """
    long_context = task.type is TaskType.LONG_CONTEXT
    return World(task.classes, task.initial_state, long_context=long_context, withheld=withheld)


def _render(result: Any) -> str:
    """As BFCL's `execute_multi_turn_func_call`: text as it is, objects as JSON where possible, else `str`."""
    if type(result) is dict:
        try:
            return json.dumps(result)
        except (TypeError, ValueError):
            return str(result)
    return str(result)


def _is_error(result: Any) -> bool:
    if isinstance(result, list) and len(result) == 1:
        result = result[0]
    return isinstance(result, dict) and "error" in result


def _public_state(instance: Any) -> dict[str, Any]:
    return {name: _to_json(value) for name, value in vars(instance).items() if not name.startswith("_")}


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
