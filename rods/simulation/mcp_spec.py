"""Which MCP server a world runs, as its task writes it, and the names of what happens on it.

A recording is looked up by digests only: of the server's description, then of each call chained to the one
before. Equal histories have equal digests on every machine, so a recording travels with its tasks.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from rods.simulation.isolation import ScenarioError
from rods.tasks.model import Call


class SpecCall(BaseModel):
    """A call that the task's author wrote, run by the simulation itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)

    def to_call(self) -> Call:
        """The same as a `Call`."""
        return Call(self.name, self.arguments)


class ServerSpec(BaseModel):
    """The scenario of an MCP class.

    Attributes:
        command: program and arguments; it starts in a folder of its own, with the programs of RODS's own
            environment first on the path.
        files: path in that folder → text, written before the start.
        prepare: commands run in that folder before the start, one after the other.
        env: further environment variables; fix here what would make results differ (dates, names).
        setup: calls made on the server before the policy's first.
        probes: calls that read the state by which turns are judged. Without any, two worlds are equal only
            when the same state-changing calls were made in the same order.
        read_only: tools that change nothing; null: those that the server marks as such (readOnlyHint).
        timeout_s: how long one call may take, in seconds. Not part of the digest.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    command: Annotated[tuple[str, ...], Field(min_length=1)]
    files: dict[str, str] = Field(default_factory=dict)
    prepare: tuple[Annotated[tuple[str, ...], Field(min_length=1)], ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    setup: tuple[SpecCall, ...] = ()
    probes: tuple[SpecCall, ...] = ()
    read_only: tuple[str, ...] | None = None
    timeout_s: Annotated[float, Field(gt=0)] = 30.0

    @field_validator("files")
    @classmethod
    def _inside(cls, files: dict[str, str]) -> dict[str, str]:
        for name in files:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or not path.parts:
                raise ValueError(f"{name!r} must be a relative path without '..'")
        return files

    def digest(self) -> str:
        """SHA-256 (hex) of everything on which results depend: the start of every chain of calls."""
        return _sha256(self.model_dump(mode="json", exclude={"timeout_s"}))


def parse_spec(class_name: str, scenario: Any) -> ServerSpec:
    """Read a scenario, strictly.

    Raises:
        ScenarioError: names each key that is missing, unknown or wrong.
    """
    try:
        return ServerSpec.model_validate(scenario)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'scenario'}: {fault['msg']}" for fault in error.errors()
        )
        raise ScenarioError(f"scenario of {class_name}: {faults}. docs/worlds.md shows the form.") from error


def chain(history: str, call: Call) -> str:
    """SHA-256 (hex) of a history's digest followed by one more call."""
    return _sha256([history, call.to_json()])


def _sha256(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
