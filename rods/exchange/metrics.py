"""Metrics as JSON lines, to watch a run by: one writer per file, readers at any time, no lock."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from rods.errors import RodsError
from rods.exchange.atomic import FILE_MODE, CorruptFileError, make_dirs, parse_json, write_fully
from rods.exchange.pressure import attempt
from rods.exchange.torn import set_tail_aside


class MetricsError(RodsError):
    """A metrics line cannot be written."""


class MetricsWriter:
    """Appends to one metrics file; a half line left by a killed predecessor is set aside as <path>.torn.

    Attributes:
        torn_file: where the half line was set aside, None for none.
    """

    def __init__(self, path: Path) -> None:
        make_dirs(path.parent)
        self.path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        self._descriptor = attempt(lambda: os.open(path, flags, FILE_MODE), path)
        whole = path.read_bytes().rfind(b"\n") + 1
        self.torn_file, _ = set_tail_aside(path, whole)

    def write(self, values: dict[str, Any]) -> None:
        """Add one line, visible to readers at once. NaN stays NaN (Python's JSON), since it is a finding.

        Raises:
            MetricsError: the values are no JSON.
            OSError: the disk is full, …; no part of the line stays.
        """
        try:
            line = json.dumps(values, separators=(",", ":"), ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise MetricsError(
                f"{self.path}: metrics must be plain JSON: {error}. Found: {str(values)[:200]}"
            ) from error
        attempt(lambda: self._append(line.encode() + b"\n"), self.path)

    def _append(self, line: bytes) -> None:
        before = os.fstat(self._descriptor).st_size
        try:
            write_fully(self._descriptor, line)
        except OSError:
            os.ftruncate(self._descriptor, before)
            raise

    def close(self) -> None:
        """Make the lines durable and close; further calls do nothing."""
        if self._descriptor >= 0:
            os.fsync(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The whole lines of `path` in order; a half line at the end is not there yet. No file: no lines.

    Raises:
        CorruptFileError: a whole line that is no JSON object; names file and line.
    """
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    return [_line(line, path, number) for number, line in enumerate(lines, start=1)]


def _line(line: bytes, path: Path, number: int) -> dict[str, Any]:
    value = parse_json(line, path.with_name(f"{path.name}, line {number}"))
    if not isinstance(value, dict):
        raise CorruptFileError(f"{path}, line {number}: expected a JSON object, found {line[:80]!r}.")
    return value
