"""Tools by their names alone: for a policy that knows by heart what they do, but not which of them it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def listed(tools: Sequence[Mapping[str, Any]]) -> str:
    """The line of a system message that says which tools there are; "" for none."""
    return f"Tools: {_names(tools)}" if tools else ""


def announced(restored: Sequence[Mapping[str, Any]]) -> str:
    """What stands before a user message that brings tools; "" for none."""
    return f"New tools: {_names(restored)}\n" if restored else ""


def _names(tools: Sequence[Mapping[str, Any]]) -> str:
    return " ".join(tool["function"]["name"] for tool in tools)
