"""Answers of the model by the content of their request, for restarts: a seed that was handed back goes on where it
stood, without asking the same again.

Each process appends to a segment of its own and reads those of the processes before it, so that several daemons
need no lock, and a Lustre folder holds few files. It is a cache: damage, a full disk or a missing file cost
requests, never the work. A request's content holds neither endpoint nor key.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rods.exchange.atomic import make_dirs
from rods.exchange.journal import JournalError, JournalWriter, read
from rods.exchange.pressure import at_once

log = logging.getLogger(__name__)

_SEGMENTS = 8  # the bound is kept by removing whole segments, the oldest first


def key_of(body: Mapping[str, Any]) -> str:
    """SHA-256 of a request's content: messages, schema, model, sampling and seed."""
    return hashlib.sha256(json.dumps(body, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


class RequestCache:
    """The cache in `folder`, bounded.

    Args:
        folder: shared by the daemons of a run; made if absent.
        max_bytes: of all segments together.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._known: dict[str, str] = {}
        self._writer: JournalWriter | None = None
        self._usable = True
        make_dirs(folder)
        self._trim()
        for path in self._segments():
            self._load(path)

    def get(self, key: str) -> str | None:
        """The answer to the request with this key; None when it is not known."""
        return self._known.get(key)

    def put(self, key: str, text: str) -> None:
        """Keep an answer. A write that fails ends the writing, with a warning."""
        self._known[key] = text
        if not self._usable:
            return
        try:
            with at_once():  # no wait for space: the event loop of all workers would wait
                self._append({"key": key, "text": text})
        except (OSError, JournalError) as error:
            self._usable = False
            log.warning(
                "request cache %s: not written any more (%s); a restart asks again", self._folder, error
            )

    def close(self) -> None:
        """Close the segment of this process."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _append(self, record: dict[str, Any]) -> None:
        if self._writer is None or self._writer.offset > self._max_bytes // _SEGMENTS:
            self.close()
            self._trim()
            self._writer = JournalWriter(self._folder / f"{secrets.token_hex(8)}-0001.log", fsync="never")
        self._writer.append(record)

    def _load(self, path: Path) -> None:
        try:
            records, _ = read(path)
        except (OSError, JournalError) as error:
            log.warning("request cache %s: not read: %s", path, error)
            return
        self._known.update((record["key"], record["text"]) for record in records)

    def _segments(self) -> list[Path]:
        """Newest first; another daemon may remove one at any time."""
        return [path for _, _, path in _by_age(self._folder)]

    def _trim(self) -> None:
        """Remove the oldest segments beyond the bound, with room for one more."""
        room = self._max_bytes - self._max_bytes // _SEGMENTS
        for _, size, path in _by_age(self._folder):
            room -= size
            if room < 0:
                path.unlink(missing_ok=True)


def _by_age(folder: Path) -> list[tuple[int, int, Path]]:
    """(mtime, bytes, path) of the segments, newest first."""
    found = []
    for path in folder.glob("*.log"):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        found.append((status.st_mtime_ns, status.st_size, path))
    return sorted(found, reverse=True)
