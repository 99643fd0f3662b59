"""A running MCP server over stdio: one process, in a folder of its own, for one world.

The SDK is asynchronous and everything around a world is not, so each server has a thread with an event loop.
The process, the thread and the folder end together: on `close`, or when nobody holds the server any more.
This is isolation between worlds, not a sandbox: the command runs with the user's rights.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from threading import Thread
from typing import IO, Any

from rods.errors import RodsError
from rods.simulation.isolation import ScenarioError
from rods.simulation.mcp_cassette import Tool
from rods.simulation.mcp_spec import ServerSpec
from rods.simulation.simulator import CallResult
from rods.tasks.model import Call

WORLD = "/world"
"""How a server's folder appears in results and arguments, since its real path differs every time."""

START_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 20.0  # the SDK closes stdin, then ends the process group; it bounds each step at 2 s
_GRACE_S = 5.0  # between the SDK's own time limit for a call and ours


class McpServerError(ScenarioError):
    """A server that did not start, or is not as its recording says."""


class ServerLostError(RodsError):
    """A server that ended, or did not answer in time: its state is not known any more."""


class LiveServer:
    """Starts the server and answers calls until `close`.

    Args:
        spec: what to run. Its setup is not run here.

    Raises:
        McpServerError: a preparing command failed, or the server did not start.
        McpMissingError: the package mcp is not installed.
    """

    def __init__(self, spec: ServerSpec) -> None:
        self._timeout = spec.timeout_s
        self._folder = tempfile.TemporaryDirectory(prefix="rods-mcp-", ignore_cleanup_errors=True)
        self._work = str(Path(self._folder.name).resolve() / "work")
        environment = _prepare(spec, Path(self._work))
        self._log = open(Path(self._folder.name) / "stderr", "w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._loop = asyncio.new_event_loop()
        thread = Thread(target=self._loop.run_forever, name="mcp-server", daemon=True)
        thread.start()
        stop = asyncio.Event()
        ready: Future[Any] = Future()
        serving = asyncio.run_coroutine_threadsafe(
            _serve(spec, self._work, environment, self._log, ready, stop), self._loop
        )
        self.close = weakref.finalize(self, _end, self._loop, thread, stop, serving, self._log, self._folder)
        wait([ready, serving], START_TIMEOUT_S, FIRST_COMPLETED)
        if not ready.done():
            reason = self._why(serving)
            self.close()
            raise McpServerError(f"the MCP server {' '.join(spec.command)!r} did not start: {reason}")
        self._client, self.tools = ready.result()

    def call(self, call: Call) -> CallResult:
        """Run a call; the server's own refusals are results.

        Raises:
            ServerLostError: the server ended, did not answer in time, or answered what MCP does not allow.
        """
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        arguments = _replace_path(dict(call.arguments), WORLD, self._work)
        future = asyncio.run_coroutine_threadsafe(
            self._client.call_tool(call.name, arguments, self._timeout), self._loop
        )
        if not wait([future], self._timeout + _GRACE_S).done:
            raise ServerLostError(f"no answer to {call.name} within {self._timeout:g} s")
        error = future.exception()
        if error is None:
            answer = future.result()
            return CallResult(_text(answer).replace(self._work, WORLD), bool(answer.is_error))
        if isinstance(error, MCPError) and error.code == REQUEST_TIMEOUT:
            raise ServerLostError(f"no answer to {call.name} within {self._timeout:g} s")
        if isinstance(error, MCPError) and error.code != CONNECTION_CLOSED:
            return CallResult(f"Error: {error}".replace(self._work, WORLD), True)
        raise ServerLostError(f"{call.name}: {error!r}") from error

    def _why(self, serving: Future[None]) -> str:
        if not serving.done():
            return f"it was not ready within {START_TIMEOUT_S:g} s"
        self._log.seek(0)
        lines = self._log.read().strip().splitlines()[-5:]
        return "\n".join([*_causes(serving.exception()), *lines])


class McpMissingError(McpServerError):
    """The package mcp is not installed."""


def _prepare(spec: ServerSpec, work: Path) -> dict[str, str]:
    """Fill the server's folder; the environment of its processes."""
    home = work.parent / "home"
    for folder in (work, home):
        folder.mkdir()
    programs = os.path.dirname(sys.executable)
    environment = {
        "PATH": os.pathsep.join([programs, os.environ.get("PATH", os.defpath)]),
        "HOME": str(home),
        "TMPDIR": str(home),
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        **spec.env,
    }
    for name, text in spec.files.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for command in spec.prepare:
        _run(command, work, environment, spec.timeout_s)
    return environment


def _run(command: tuple[str, ...], work: Path, environment: Mapping[str, str], timeout_s: float) -> None:
    try:
        done = subprocess.run(
            command, cwd=work, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise McpServerError(f"the preparing command {' '.join(command)!r} failed: {error}") from error
    if done.returncode:
        raise McpServerError(
            f"the preparing command {' '.join(command)!r} ended with status {done.returncode}: "
            f"{(done.stderr or done.stdout).strip()[-500:]}"
        )


async def _serve(
    spec: ServerSpec,
    work: str,
    environment: dict[str, str],
    log: IO[str],
    ready: Future[Any],
    stop: asyncio.Event,
) -> None:
    """Run the server until `stop`; `ready` gets the client and the tools."""
    try:
        from mcp import Client, StdioServerParameters
        from mcp.client.stdio import stdio_client
    except ModuleNotFoundError as error:
        raise McpMissingError("the package mcp is not installed: run `pip install -e '.[mcp]'`") from error
    program, *arguments = spec.command
    parameters = StdioServerParameters(command=program, args=arguments, env=environment, cwd=work)
    transport = stdio_client(parameters, errlog=log)  # type: ignore[arg-type]
    async with Client(transport, read_timeout_seconds=START_TIMEOUT_S) as client:
        ready.set_result((client, await _list_tools(client)))
        await stop.wait()


async def _list_tools(client: Any) -> tuple[Tool, ...]:
    tools: list[Tool] = []
    cursor = None
    while True:
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            schema = {**tool.input_schema, "type": "object"}
            # A property's schema may be just `true`.
            properties = schema.get("properties", {}).items()
            schema["properties"] = {name: {} if kind is True else kind for name, kind in properties}
            read_only = bool(tool.annotations and tool.annotations.read_only_hint)
            tools.append(Tool(tool.name, tool.description or "", schema, read_only))
        cursor = page.next_cursor
        if cursor is None:
            return tuple(tools)


def _end(
    loop: asyncio.AbstractEventLoop,
    thread: Thread,
    stop: asyncio.Event,
    serving: Future[None],
    log: IO[str],
    folder: tempfile.TemporaryDirectory[str],
) -> None:
    loop.call_soon_threadsafe(stop.set)
    if not wait([serving], _STOP_TIMEOUT_S).done:
        serving.cancel()
        wait([serving], _STOP_TIMEOUT_S)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(_STOP_TIMEOUT_S)
    log.close()
    folder.cleanup()


def _causes(error: BaseException | None) -> list[str]:
    """The errors inside the groups that task groups make of them."""
    if isinstance(error, BaseExceptionGroup):
        return [text for inner in error.exceptions for text in _causes(inner)]
    return [] if error is None else [str(error) or repr(error)]


def _text(answer: Any) -> str:
    """The blocks of a result as one text; what is not text is named, not shown."""
    return "\n".join(
        block.text if block.type == "text" else f"[{block.type}: not shown]" for block in answer.content
    )


def _replace_path(value: Any, old: str, new: str) -> Any:
    """`value` with the strings that are `old` or a path below it moved to `new`."""
    if isinstance(value, str):
        inside = value == old or value.startswith(f"{old}/")
        return new + value[len(old) :] if inside else value
    if isinstance(value, Mapping):
        return {name: _replace_path(item, old, new) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replace_path(item, old, new) for item in value]
    return value
