"""tracker.json: a snapshot of the curriculum, the journal positions it belongs to, and its digest.

Written in pieces, so that a state of a million tasks is never held as one text and a step that runs meanwhile
gets its turn between two pieces.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from rods.curriculum.state import CurriculumState
from rods.errors import RodsError
from rods.exchange.atomic import write_pieces

NAME = "tracker.json"


class SnapshotError(RodsError):
    """A file that holds no snapshot, or one that is not what it says."""


class _Stored(msgspec.Struct):
    records: int
    digest: str
    positions: dict[str, int]
    state: msgspec.Raw


@dataclass(frozen=True)
class Snapshot:
    """A state and where in the journal it stands.

    Attributes:
        state: the fold of the history's first `records` records.
        records: how many records the history has.
        positions: journal file → bytes of it that belong to the history.
    """

    state: CurriculumState
    records: int
    positions: Mapping[str, int]

    def summary(self) -> dict[str, Any]:
        """All but the state itself; its digest stands for it."""
        return {"records": self.records, "digest": self.state.digest(), "positions": dict(self.positions)}

    def write(self, path: Path) -> None:
        """Replace `path`, atomically and durably. Raises OSError, as `atomic.write_pieces`."""
        write_pieces(path, self._pieces)

    def save(self, folder: Path) -> None:
        """Write it to its place in a checkpoint's folder. Raises OSError, as `write`."""
        self.write(folder / NAME)

    @staticmethod
    def read(path: Path) -> Snapshot:
        """What `write` wrote.

        Raises:
            SnapshotError: it is damaged, of another form, or its state is not that of its digest.
            OSError: it cannot be read.
        """
        try:
            stored = _decode(path.read_bytes())
            state = CurriculumState.from_bytes(stored.state)
        except (msgspec.MsgspecError, ValueError, RodsError) as error:
            raise SnapshotError(f"{path}: expected a snapshot as {NAME} holds it: {error}") from error
        if state.digest() != stored.digest:
            raise SnapshotError(
                f"{path}: expected the state of digest {stored.digest[:12]}, found {state.digest()[:12]}"
            )
        return Snapshot(state, stored.records, stored.positions)

    def _pieces(self) -> Iterator[bytes]:
        yield json.dumps(self.summary()).encode()[:-1] + b', "state":'
        yield from self.state.pieces()
        yield b"}\n"


class BackgroundWriter:
    """Writes snapshots in a thread of its own: at most one at a time, and of those that wait only the newest."""

    def __init__(self, write: Callable[[Snapshot], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._waiting: Snapshot | None = None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def submit(self, snapshot: Snapshot) -> None:
        """Have `snapshot` written; returns at once. Raises what an earlier write raised."""
        self._raise_error()
        with self._lock:
            self._waiting = snapshot
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tracker")
                self._thread.start()

    def close(self) -> None:
        """Wait until all is written. Raises what a write raised."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()
        self._raise_error()

    def _run(self) -> None:
        while (snapshot := self._take()) is not None:
            try:
                self._write(snapshot)
            except BaseException as error:  # noqa: BLE001 (raised in the thread that submits)
                self._error = error

    def _take(self) -> Snapshot | None:
        with self._lock:
            snapshot, self._waiting = self._waiting, None
            if snapshot is None:
                self._thread = None
            return snapshot

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error


_decode = msgspec.json.Decoder(_Stored).decode
