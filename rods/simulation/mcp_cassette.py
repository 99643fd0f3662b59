"""A cassette: what one MCP server answered, so that it need not run again.

One JSONL file per server description. Its first line has the server's tools, each further line one result
under the digest of the calls that led to it. Lines are only ever added, and the first result recorded for a
digest stays: worlds that share a cassette, in any number of processes, see one deterministic server.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from filelock import FileLock

from rods.simulation.isolation import ScenarioError
from rods.simulation.mcp_spec import ServerSpec
from rods.simulation.simulator import CallResult
from rods.tasks.model import Call


class CassetteError(ScenarioError):
    """A recording that is missing or damaged."""


@dataclass(frozen=True)
class Tool:
    """A server's tool as recorded.

    Attributes:
        name, description: the server's.
        parameters: JSON schema of the arguments object, with `type` and `properties`.
        read_only: the server says that it changes nothing.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    read_only: bool


class Cassette:
    """The recording in one file; the file need not exist yet. Safe between threads and processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        self._forget()
        self._refresh()

    @property
    def tools(self) -> tuple[Tool, ...] | None:
        """The server's tools in its order; None while nothing is recorded."""
        return self._tools

    def find(self, key: str) -> CallResult | None:
        """The result recorded under `key`, if any, also when another process has just recorded it."""
        found = self._results.get(key)
        if found is None:
            with self._lock:
                self._refresh()
            found = self._results.get(key)
        return found

    def begin(self, class_name: str, spec: ServerSpec, tools: tuple[Tool, ...]) -> None:
        """Record the server's tools, unless they are."""
        header = {"class": class_name, "spec": spec.model_dump(mode="json")}
        with self._writing():
            if self._tools is None:
                self._append({**header, "tools": [asdict(tool) for tool in tools]})

    def add(self, key: str, call: Call, result: CallResult) -> CallResult:
        """Record a result; what now stands under `key`, which may be an earlier recording."""
        with self._writing():
            if key not in self._results:
                self._append({"key": key, "call": call.to_json(), **asdict(result)})
            return self._results[key]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Alone with the file, among threads and processes, and up to date with it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{self.path}.lock"), self._lock:
            self._refresh()
            yield

    def _append(self, record: Mapping[str, Any]) -> None:
        line = json.dumps(record, ensure_ascii=True) + "\n"
        with open(self.path, "ab") as file:
            # A writer that died in the middle of a line left a tail that nobody has read.
            file.truncate(self._end)
            file.write(line.encode())
        self._refresh()

    def _forget(self) -> None:
        self._tools: tuple[Tool, ...] | None = None
        self._results: dict[str, CallResult] = {}
        self._end = 0
        self._file_id: int | None = None
        self._lines = 0

    def _refresh(self) -> None:
        """Read the whole lines that were added; everything when the file was replaced."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            self._forget()
            return
        if status.st_ino != self._file_id or status.st_size < self._end:
            self._forget()
            self._file_id = status.st_ino
        if status.st_size == self._end:
            return
        with open(self.path, "rb") as file:
            file.seek(self._end)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        for line in whole.splitlines():
            self._take(line)
        self._end += len(whole)

    def _take(self, line: bytes) -> None:
        self._lines += 1
        try:
            record = json.loads(line)
            if self._lines == 1:
                self._tools = tuple(Tool(**tool) for tool in record["tools"])
            else:
                self._results.setdefault(record["key"], CallResult(record["text"], record["failed"]))
        except (ValueError, TypeError, KeyError) as error:
            raise CassetteError(
                f"{self.path}, line {self._lines}: expected a recorded {'server' if self._lines == 1 else 'call'},"
                f" found {line[:80]!r} ({error!r}). Restore the file, or delete it and record again."
            ) from error


@lru_cache(maxsize=4096)
def _shared(path: Path) -> Cassette:
    return Cassette(path)


def open_cassette(folder: Path, class_name: str, spec: ServerSpec) -> Cassette:
    """The process's cassette of this server in `folder`.

    Raises:
        CassetteError: the file is damaged.
    """
    name = f"{class_name.replace(':', '-')}-{spec.digest()[:16]}.jsonl"
    return _shared(folder.resolve() / name)
