"""Every error that the eight simulators' source can return or raise, found in their syntax trees."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rods.tasks.bfcl_package import CLASSES, simulator


@dataclass(frozen=True)
class SourceError:
    """One place in the source.

    Attributes:
        class_name: simulator.
        function: method (or a helper's method) that holds it.
        example: the text with "7" for what is filled in; "" when the whole text is computed.
        raised: it is raised, not returned.
    """

    class_name: str
    function: str
    example: str
    raised: bool


def source_errors() -> list[SourceError]:
    """All of them, in the order of the source."""
    return [error for class_name in CLASSES for error in _of_class(class_name)]


def _of_class(class_name: str) -> Iterator[SourceError]:
    module: Any = inspect.getmodule(simulator(class_name))
    for function in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                for value, raised in _errors(node):
                    yield SourceError(class_name, function.name, _example(value), raised)


def _errors(node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "error":
                yield value, False
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        key = node.targets[0].slice
        if isinstance(key, ast.Constant) and key.value == "error":
            yield node.value, False
    elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        yield node.exc.args[0], True


def _example(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_example(part) if isinstance(part, ast.Constant) else "7" for part in node.values)
    if isinstance(node, ast.BinOp):
        return _example(node.left) + (_example(node.right) or "7")
    return ""
