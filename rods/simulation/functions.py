"""What the policy may call: the documented functions of the simulated classes, as JSON schemas.

BFCL writes its parameter documentation with Python's type names. Here it becomes real JSON schema once per
class, so that the same object is shown to the policy and used to check its calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from rods.tasks.bfcl_package import read_documentation

_TYPES = {
    "dict": "object",
    "float": "number",
    "tuple": "array",
    "any": "string",
    "list": "array",
    "bool": "boolean",
}


@dataclass(frozen=True, eq=False)
class FunctionDoc:
    """The documentation of one function.

    Attributes:
        name: unique among the eight classes.
        class_name: the simulator that implements it.
        description: BFCL's text.
        parameters: JSON schema of the arguments object. Shared: do not change it.
        returns: names of the result's fields; empty where the documentation does not say.
    """

    name: str
    class_name: str
    description: str
    parameters: Mapping[str, Any]
    returns: tuple[str, ...] = ()

    def to_tool(self) -> dict[str, Any]:
        """The tool as chat templates expect it: `{"type": "function", "function": {name, …}}`."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}


def documentation(classes: Sequence[str]) -> dict[str, FunctionDoc]:
    """The functions of `classes` by name, class after class, in the package's order.

    Raises:
        UnknownClassError: a class that is not simulated.
        BfclMissingError: bfcl-eval is not installed.
    """
    return dict(_documentation(tuple(classes)))


@cache
def _documentation(classes: tuple[str, ...]) -> dict[str, FunctionDoc]:
    return {doc.name: doc for class_name in classes for doc in _class_documentation(class_name)}


@cache
def _class_documentation(class_name: str) -> tuple[FunctionDoc, ...]:
    return tuple(
        FunctionDoc(
            entry["name"],
            class_name,
            entry["description"],
            _schema(entry["parameters"]),
            tuple(entry.get("response", {}).get("properties", {})),
        )
        for entry in read_documentation(class_name)
    )


def _schema(node: Mapping[str, Any]) -> dict[str, Any]:
    """BFCL's parameter documentation as JSON schema; BFCL writes the default None as the string "None"."""
    schema = dict(node)
    schema["type"] = _TYPES.get(node["type"], node["type"])
    if schema.get("default") == "None":
        schema["default"] = None
    if "properties" in node:
        schema["properties"] = {name: _schema(child) for name, child in node["properties"].items()}
    if "items" in node:
        schema["items"] = _schema(node["items"])
    return schema
