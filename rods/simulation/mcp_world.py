"""MCP servers as simulators: recorded once, replayed everywhere.

Training cannot keep a process per rollout, nor trust one to answer the same way twice. So results come from a
cassette, under the digest of (server, state-changing calls so far, call). In mode `replay` that is all there
is: a call outside the cassette is an error that says so. In mode `record` a missing result is asked of the
real server, which is started when first needed and brought to the present state by making the calls since
the start again.

The reward stays honest: after a state-changing call that is not in the cassette the state is not known, and
an unknown state equals no other, so replay passes no turn that the real server would fail.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, SchemaError

from rods.errors import RodsError
from rods.simulation.functions import FunctionDoc
from rods.simulation.isolation import ScenarioError
from rods.simulation.mcp_cassette import Cassette, CassetteError, open_cassette
from rods.simulation.mcp_server import LiveServer, McpServerError, ServerLostError
from rods.simulation.mcp_spec import ServerSpec, chain, parse_spec
from rods.simulation.simulator import CallResult, Opening
from rods.tasks.model import Call

_CLASS_NAME = re.compile(r"mcp:[A-Za-z0-9_-]{1,64}")
Step = tuple[Call, str]
"""A state-changing call and the digest of the history that ends with it."""


def build(opening: Opening) -> McpSimulator:
    """The simulator of an MCP class in the mode that `simulation.mcp` names.

    Raises:
        ScenarioError: the class's name or scenario does not have the expected form.
        CassetteError: nothing is recorded (replay), or the cassette is damaged.
        McpServerError: the server or its setup failed (record).
    """
    name, simulation = opening.class_name, opening.simulation
    if not _CLASS_NAME.fullmatch(name):
        raise ScenarioError(f"class {name!r}: expected mcp: and a name of letters, digits, - and _")
    if not simulation.cassettes:
        raise CassetteError(f"class {name}: simulation.cassettes must name the folder of recordings")
    spec = parse_spec(name, opening.scenario)
    cassette = open_cassette(Path(simulation.cassettes), name, spec)
    return McpSimulator(name, spec, cassette, live=simulation.mcp == "record")


class McpSimulator:
    """One MCP server as one world sees it.

    Args:
        class_name: its class.
        spec: the server.
        cassette: of this server.
        live: ask the real server for what is not recorded, and record it.

    Raises:
        CassetteError: nothing is recorded and `live` is false.
        McpServerError: the server or its setup failed.
    """

    def __init__(self, class_name: str, spec: ServerSpec, cassette: Cassette, *, live: bool) -> None:
        self._spec = spec
        self._cassette = cassette
        self._live = live
        self._server: LiveServer | None = None
        self._applied = 0  # steps of the history that the running server has seen
        self._lost = ""
        self._history: list[Step] = []
        self._digest = spec.digest()
        try:
            self._open(class_name)
        except RodsError:
            self.close()
            raise

    def call(self, call: Call) -> CallResult:
        """As `Simulator.call`. The history grows by every state-changing call, recorded or not."""
        if call.name in self._read_only:
            return self._read(call)
        key = chain(self._digest, call)
        result = self._cassette.find(key)
        if result is None:
            result = self._ask(key, call)
            self._applied = len(self._history) + 1
        self._history.append((call, key))
        self._digest = key
        self._probe_all()
        return result

    def attributes(self) -> Mapping[str, Any] | None:
        """As `Simulator.attributes`: the probes' results, or without probes the digest of the history."""
        if self._lost:
            return None
        if not self._spec.probes:
            return {"history": self._digest}
        seen = {}
        for probe in self._spec.probes:
            result = self._cassette.find(chain(self._digest, probe.to_call()))
            if result is None:
                return None
            seen[f"{probe.name}({json.dumps(probe.arguments)})"] = result.text
        return seen

    def state(self) -> dict[str, Any]:
        """As `Simulator.state`."""
        attributes = self.attributes()
        return {"unknown": "outside the recording"} if attributes is None else dict(attributes)

    def snapshot(self) -> tuple[Step, ...]:
        """As `Simulator.snapshot`: the calls that led here."""
        return tuple(self._history)

    def restore(self, snapshot: tuple[Step, ...]) -> None:
        """As `Simulator.restore`. A running server is ended; the next one is brought here when needed."""
        self.close()
        self._lost = ""
        self._history = list(snapshot)
        self._digest = snapshot[-1][1] if snapshot else self._spec.digest()

    def close(self) -> None:
        """As `Simulator.close`."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _open(self, class_name: str) -> None:
        if self._cassette.tools is None:
            self._begin(class_name)
        tools = self._cassette.tools or ()
        self.docs: Mapping[str, FunctionDoc] = {
            tool.name: FunctionDoc(tool.name, class_name, tool.description, tool.parameters) for tool in tools
        }
        marked = (tool.name for tool in tools if tool.read_only)
        self._read_only = frozenset(marked if self._spec.read_only is None else self._spec.read_only)
        self._check_names(class_name)
        self._probe_all()

    def _begin(self, class_name: str) -> None:
        if not self._live:
            raise CassetteError(
                f"class {class_name}: nothing is recorded in {self._cassette.path}. Record the task with "
                "`python -m rods.simulation.recording`, or set simulation.mcp=record to run the server."
            )
        tools = self._running().tools
        for tool in tools:
            try:
                Draft202012Validator.check_schema(tool.parameters)
            except SchemaError as error:
                raise McpServerError(
                    f"{class_name}: the schema of {tool.name} is invalid: {error.message}"
                ) from error
        self._cassette.begin(class_name, self._spec, tools)

    def _read(self, call: Call) -> CallResult:
        key = chain(self._digest, call)
        return self._cassette.find(key) or self._ask(key, call)

    def _probe_all(self) -> None:
        """While recording, keep what the probes say of every state that is reached."""
        if self._live:
            for probe in self._spec.probes:
                self._read(probe.to_call())

    def _ask(self, key: str, call: Call) -> CallResult:
        """What the real server answers, recorded; an error when there is none to ask."""
        if not self._live:
            return CallResult(self._outside(call), True)
        try:
            if self._lost:
                raise ServerLostError(self._lost)
            server = self._running()
            self._catch_up(server)
            result = server.call(call)
        except (ServerLostError, McpServerError) as error:
            self._lost = str(error)
            self.close()
            return CallResult(f"Error: the server is lost: {error}", True)
        return self._cassette.add(key, call, result)

    def _outside(self, call: Call) -> str:
        """The error text; it names the whole call, so that two different calls never have equal results."""
        after = "" if call.name in self._read_only else "; the server's state is not known from here on"
        arguments = json.dumps(dict(call.arguments), sort_keys=True)
        return f"Error: this call is outside the recording: {call.name}({arguments}){after}"

    def _running(self) -> LiveServer:
        """The server, started and set up."""
        if self._server is None:
            self._server = LiveServer(self._spec)
            self._applied = 0
            for step in self._spec.setup:
                result = self._server.call(step.to_call())
                if result.failed:
                    raise McpServerError(f"the setup call {step.name} failed: {result.text}")
        return self._server

    def _catch_up(self, server: LiveServer) -> None:
        """Make the calls of the history that this server has not seen; each must answer as recorded."""
        for call, key in self._history[self._applied :]:
            recorded, result = self._cassette.find(key), server.call(call)
            if result != recorded:
                raise McpServerError(
                    f"{call.name} answered {result.text[:200]!r}, but {recorded and recorded.text[:200]!r} is "
                    "recorded: fix in the scenario's env what differs between starts (dates, names, seeds)"
                )
            self._applied += 1

    def _check_names(self, class_name: str) -> None:
        named = {*(probe.name for probe in self._spec.probes), *(self._spec.read_only or ())}
        unknown = sorted(named - self.docs.keys())
        if unknown:
            raise ScenarioError(
                f"scenario of {class_name}: the server has no tool {', '.join(unknown)}; it has: {', '.join(self.docs)}"
            )
