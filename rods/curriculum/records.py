"""The curriculum's state as a value: what is known about every task, seed request and the run's position.

Everything decisions read is in here, the two config sections included, so that a snapshot explains itself and
a resumed run cannot decide by other rules than the run it continues. Snapshots are strict JSON; equal states
have equal digests in every process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from rods.config import BoundaryConfig, BufferConfig
from rods.curriculum.errors import StateFormatError
from rods.curriculum.events import RetirementReason, SeedOutcome
from rods.curriculum.statistics import TaskStatistics
from rods.tasks.model import Origin, TaskType


class TaskStatus(StrEnum):
    """waiting (arrived, not injected) → active (training samples it) → retired; seeds are always active."""

    WAITING = "waiting"
    ACTIVE = "active"
    RETIRED = "retired"


@dataclass(frozen=True)
class TaskRecord:
    """What is known about one task.

    Attributes:
        id: the task's id.
        seed_id: the original task at the root of its line; its own id for a seed.
        type, kind, origin: as in the task.
        status: where it stands.
        reason: why it was retired, else None.
        request: for a variant, the key of the seed request it answers; "" for a seed.
        index: for a variant, its place among the variants of that request.
        arrived_epoch: for a variant, the epoch it arrived in; 0 for a seed.
        injected_epoch: first epoch it is active in; None while it waits, 1 for a seed.
        statistics: observations so far.
    """

    id: str
    seed_id: str
    type: TaskType
    kind: str
    origin: Origin
    status: TaskStatus
    reason: RetirementReason | None
    request: str
    index: int
    arrived_epoch: int
    injected_epoch: int | None
    statistics: TaskStatistics

    @property
    def live_variant(self) -> bool:
        """Whether it counts against P_max: an active variant."""
        return self.status is TaskStatus.ACTIVE and self.origin is Origin.VARIANT


@dataclass(frozen=True)
class SeedRequest:
    """A seed handed to synthesis; open until it has an outcome."""

    key: str
    task_id: str
    seed_id: str
    step: int
    epoch: int
    phi: float
    outcome: SeedOutcome | None


@dataclass(frozen=True)
class CurriculumState:
    """The whole curriculum at one point of the journal. The mappings are values too: never change one.

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
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    boundary: BoundaryConfig
    buffer: BufferConfig
    tasks: Mapping[str, TaskRecord]
    contents: Mapping[str, str]
    requests: Mapping[str, SeedRequest]
    last_emitted: Mapping[str, int]
    refused: Mapping[str, int]
    step: int
    epoch: int
    in_epoch: bool
    finished: bool
    fingerprint: str | None
    seed: int | None

    def to_json(self) -> dict[str, Any]:
        """JSON object; `from_json` restores an equal state, floats bit for bit."""
        data: dict[str, Any] = _adapter().dump_python(self, mode="json")
        return data

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> CurriculumState:
        """Inverse of `to_json`.

        Raises:
            StateFormatError: on any other form; the message names the first offending places.
        """
        try:
            return _adapter().validate_json(json.dumps(data), strict=True)
        except (ValidationError, TypeError, ValueError) as error:
            raise StateFormatError(
                f"curriculum state: {error}. Expected what CurriculumState.to_json wrote; "
                "restore from an older checkpoint, or replay the journal from the start."
            ) from error

    def digest(self) -> str:
        """SHA-256 (hex) of the canonical JSON: equal for equal states, in every process."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()


@cache
def _adapter() -> TypeAdapter[CurriculumState]:
    return TypeAdapter(CurriculumState)
