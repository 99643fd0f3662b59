"""What a chat is told of a session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Start:
    """How a session begins: the first query, and the tools that are there."""

    query: str
    tools: tuple[dict[str, Any], ...] = ()


@dataclass
class Reply:
    """What an assistant message led to: results of its calls, or the next query with the tools that it brings."""

    observations: tuple[str, ...] = ()
    query: str | None = None
    restored: tuple[dict[str, Any], ...] = ()
