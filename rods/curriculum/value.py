"""The curriculum's state as a value.

Everything decisions read is in here, the two config sections included, so that a snapshot explains itself and
a resumed run cannot decide by other rules than the run it continues.

The mappings are persistent (hash array mapped tries): a changed one shares all but a few nodes with the one
before, so that a state stays a value while a step costs what it changes, not what the pool holds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from immutables import Map

from rods.config import BoundaryConfig, BufferConfig
from rods.curriculum import snapshot
from rods.curriculum.draft import Draft
from rods.curriculum.index import EMPTY, Index
from rods.curriculum.records import SeedRequest, StageRecord, TaskRecord


@dataclass(frozen=True)
class CurriculumState:
    """The whole curriculum at one point of the journal.

    Attributes:
        boundary, buffer: the config sections decisions follow.
        tasks: every task ever known by id, retired ones included.
        contents: content id → id of the first task with that content; a variant must bring a new one.
        requests: every seed request by key.
        last_emitted: root seed id → step of its latest emission, for the exclusion window.
        refused: reason → number of variants refused.
        step, epoch: position of the latest event; epoch 0 is before the first.
        in_epoch: between EpochStarted and EpochFinished.
        finished: RunFinished was the last word.
        fingerprint, seed: of the run, once started.
        stage: the stage under way; None before the first, and in a run without stages.
        index: what follows from the rest, kept so that nobody has to look through all tasks; never stored.

    The mappings iterate in an order that differs between processes: sort whatever becomes visible.
    """

    boundary: BoundaryConfig
    buffer: BufferConfig
    tasks: Map[str, TaskRecord]
    contents: Map[str, str]
    requests: Map[str, SeedRequest]
    last_emitted: Map[str, int]
    refused: Map[str, int]
    step: int
    epoch: int
    in_epoch: bool
    finished: bool
    fingerprint: str | None
    seed: int | None
    stage: StageRecord | None
    index: Index = field(compare=False, repr=False)

    def digest(self) -> str:
        """SHA-256 (hex): equal for equal states, in every process; costs nothing that grows with the pool."""
        whole = msgspec.json.encode((snapshot.head(self), f"{self.index.total:064x}"), order="deterministic")
        return hashlib.sha256(whole).hexdigest()

    def pieces(self) -> Iterator[bytes]:
        """The bytes of a snapshot, piece by piece; may run in another thread. Inverse: `from_bytes`."""
        return snapshot.pieces(self)

    def to_json(self) -> dict[str, Any]:
        """JSON object; `from_json` restores an equal state, floats bit for bit."""
        data: dict[str, Any] = json.loads(b"".join(self.pieces()))
        return data

    @staticmethod
    def from_bytes(data: bytes | msgspec.Raw) -> CurriculumState:
        """Inverse of `pieces`; index and digest are made anew.

        Raises:
            StateFormatError: on any other form; the message names the first offending place.
        """
        stored, rules = snapshot.parse(data)
        scalars = {name: getattr(stored, name) for name in snapshot.SCALARS}
        draft = Draft(replace(empty(rules.boundary, rules.buffer), **scalars))
        for record in stored.tasks.values():
            draft.put_task(record)
        for request in stored.requests.values():
            draft.put_request(request)
        draft.contents.update(stored.contents)
        draft.last_emitted.update(stored.last_emitted)
        draft.refused.update(stored.refused)
        return draft.freeze()

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> CurriculumState:
        """Inverse of `to_json`. Raises StateFormatError, as `from_bytes`."""
        try:
            encoded = json.dumps(data, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise snapshot.flawed(error) from error
        return CurriculumState.from_bytes(encoded)


def empty(boundary: BoundaryConfig, buffer: BufferConfig) -> CurriculumState:
    """A state without tasks, before the first event: what others are built from."""
    return CurriculumState(
        boundary=boundary,
        buffer=buffer,
        tasks=Map(),
        contents=Map(),
        requests=Map(),
        last_emitted=Map(),
        refused=Map(),
        step=0,
        epoch=0,
        in_epoch=False,
        finished=False,
        fingerprint=None,
        seed=None,
        stage=None,
        index=EMPTY,
    )
