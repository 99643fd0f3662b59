"""What a task is: a dialogue of user turns over simulated APIs, with the calls that solve it.

These frozen dataclasses cross every border of the system (queues, journals, files), so they know how to
become JSON and back, strictly: an unknown or missing key is an error, never a default.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from rods.errors import RodsError


class TaskFormatError(RodsError):
    """A serialised task that does not have the expected form."""


class TaskType(StrEnum):
    """The four types of BFCL V3 multi-turn entries."""

    BASE = "base"
    MISS_FUNC = "miss_func"
    MISS_PARAM = "miss_param"
    LONG_CONTEXT = "long_context"


class Origin(StrEnum):
    """Where a task came from: `seed` (written by people or shipped) or `variant` (synthesised in the run)."""

    SEED = "seed"
    VARIANT = "variant"


@dataclass(frozen=True)
class Call:
    """One function call with keyword arguments (JSON values)."""

    name: str
    arguments: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """`{"name": …, "arguments": {…}}`."""
        return {"name": self.name, "arguments": dict(self.arguments)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Call:
        """Inverse of `to_json`.

        Raises:
            TaskFormatError: on any other form.
        """
        _expect_keys("call", data, {"name", "arguments"})
        if not isinstance(data["name"], str) or not isinstance(data["arguments"], Mapping):
            raise TaskFormatError(f"call: expected a string name and an object of arguments, found {data!r}")
        return Call(data["name"], dict(data["arguments"]))


@dataclass(frozen=True)
class Turn:
    """One user turn: what the user says and the calls that answer it.

    Attributes:
        query: the user's message.
        calls: ground-truth calls in order; empty when the right answer is not to call (miss_func, miss_param).
        restored: names of withheld functions that become available with this turn (miss_func).
    """

    query: str
    calls: tuple[Call, ...]
    restored: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """JSON object with keys query, calls, restored."""
        return {
            "query": self.query,
            "calls": [call.to_json() for call in self.calls],
            "restored": list(self.restored),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Turn:
        """Inverse of `to_json`.

        Raises:
            TaskFormatError: on any other form.
        """
        _expect_keys("turn", data, {"query", "calls", "restored"})
        calls = tuple(Call.from_json(call) for call in data["calls"])
        return Turn(data["query"], calls, tuple(data["restored"]))


@dataclass(frozen=True)
class Task:
    """A multi-turn tool-use task.

    Attributes:
        id: unique in a run.
        type: one of the four BFCL types.
        classes: names of the simulated API classes involved ("GorillaFileSystem", …).
        initial_state: class name → scenario that the simulator loads.
        turns: the dialogue.
        withheld: functions hidden from the policy until a turn restores them (miss_func).
        origin: seed or variant.
        seed_id: for a variant, the id of the *original* seed task at the root of its line; for a seed, its own id.
        kind: free label of the task's family, for tables; "" where there is none.
        provenance: how a variant was made (attempts, backend, prompt hashes); not part of the content.
    """

    id: str
    type: TaskType
    classes: tuple[str, ...]
    initial_state: Mapping[str, Any]
    turns: tuple[Turn, ...]
    withheld: tuple[str, ...] = ()
    origin: Origin = Origin.SEED
    seed_id: str = ""
    kind: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.seed_id:
            object.__setattr__(self, "seed_id", self.id)

    def to_json(self) -> dict[str, Any]:
        """JSON object with one key per attribute."""
        return {
            "id": self.id,
            "type": self.type.value,
            "classes": list(self.classes),
            "initial_state": dict(self.initial_state),
            "turns": [turn.to_json() for turn in self.turns],
            "withheld": list(self.withheld),
            "origin": self.origin.value,
            "seed_id": self.seed_id,
            "kind": self.kind,
            "provenance": dict(self.provenance),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Task:
        """Inverse of `to_json`.

        Raises:
            TaskFormatError: on any other form.
        """
        _expect_keys(
            "task",
            data,
            {
                "id",
                "type",
                "classes",
                "initial_state",
                "turns",
                "withheld",
                "origin",
                "seed_id",
                "kind",
                "provenance",
            },
        )
        try:
            return Task(
                id=data["id"],
                type=TaskType(data["type"]),
                classes=tuple(data["classes"]),
                initial_state=data["initial_state"],
                turns=tuple(Turn.from_json(turn) for turn in data["turns"]),
                withheld=tuple(data["withheld"]),
                origin=Origin(data["origin"]),
                seed_id=data["seed_id"],
                kind=data["kind"],
                provenance=data["provenance"],
            )
        except ValueError as error:
            raise TaskFormatError(f"task {data['id']!r}: {error}") from error

    def content_id(self) -> str:
        """SHA-256 (hex) of what the task asks: type, classes, state, turns, withheld; not ids or provenance."""
        data = self.to_json()
        content = {key: data[key] for key in ("type", "classes", "initial_state", "turns", "withheld")}
        return _digest(content)


def fingerprint(tasks: Iterable[Task]) -> str:
    """SHA-256 (hex) over the tasks in order, ids included: two runs with equal fingerprints saw equal tasks."""
    return _digest([task.to_json() for task in tasks])


def _digest(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _expect_keys(what: str, data: Any, keys: set[str]) -> None:
    if not isinstance(data, Mapping):
        raise TaskFormatError(f"{what}: expected an object, found {type(data).__name__}")
    if set(data) != keys:
        missing, extra = sorted(keys - set(data)), sorted(set(data) - keys)
        raise TaskFormatError(f"{what}: missing keys {missing}, unknown keys {extra}")
