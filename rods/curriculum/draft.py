"""A state under construction: the fold's workbench, private to one call of `state.fold`.

Entries are written here and nowhere else, so that the index and the sum of hashes follow every change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from rods.curriculum.errors import ImpossibleEventError
from rods.curriculum.events import Event, StageStarted
from rods.curriculum.index import IndexDraft, Table
from rods.curriculum.records import SeedRequest, StageRecord, TaskRecord, TaskStatus
from rods.curriculum.statistics import UNOBSERVED
from rods.tasks.model import Origin

if TYPE_CHECKING:
    from rods.curriculum.value import CurriculumState


class Draft:
    """A state under construction; attributes as in `CurriculumState`. The state it starts from stays as it is."""

    def __init__(self, state: CurriculumState) -> None:
        self._start = state
        self._index = IndexDraft(state.index, state.boundary)
        self.boundary = state.boundary
        self.buffer = state.buffer
        self.tasks = Table("tasks", state.tasks)
        self.contents = Table("contents", state.contents)
        self.requests = Table("requests", state.requests)
        self.last_emitted = Table("last_emitted", state.last_emitted)
        self.refused = Table("refused", state.refused)
        self.step = state.step
        self.epoch = state.epoch
        self.in_epoch = state.in_epoch
        self.finished = state.finished
        self.fingerprint = state.fingerprint
        self.seed = state.seed
        self.stage = state.stage

    @property
    def active(self) -> int:
        """How many tasks are active."""
        return self._index.active

    def put_task(self, record: TaskRecord) -> None:
        """Add a task's record, or replace it."""
        self._index.task(self.tasks.get(record.id), record)
        self.tasks[record.id] = record

    def put_request(self, request: SeedRequest) -> None:
        """Add a seed request, or replace it."""
        self._index.request(self.requests.get(request.key), request)
        self.requests[request.key] = request

    def begin_stage(self, event: StageStarted) -> None:
        """Activate the originals of its types, let the others rest, and forget what another reward showed."""
        forgotten = self.stage is not None and self.stage.reward != event.reward
        for record in self.tasks.values():
            changed = msgspec.structs.replace(record, statistics=UNOBSERVED) if forgotten else record
            if record.origin is Origin.SEED:
                takes_part = not event.types or record.type in event.types
                status = TaskStatus.ACTIVE if takes_part else TaskStatus.RESTING
                changed = msgspec.structs.replace(changed, status=status)
            if changed != record:
                self.put_task(changed)
        self.stage = StageRecord(event.stage, event.title, event.reward, event.epoch)

    def freeze(self) -> CurriculumState:
        """The state as it is; the draft must not be used afterwards."""
        tasks, contents, requests = self.tasks.freeze(), self.contents.freeze(), self.requests.freeze()
        last_emitted, refused = self.last_emitted.freeze(), self.refused.freeze()
        self._index.shift(tasks[1] + contents[1] + requests[1] + last_emitted[1] + refused[1])
        return replace(
            self._start,
            tasks=tasks[0],
            contents=contents[0],
            requests=requests[0],
            last_emitted=last_emitted[0],
            refused=refused[0],
            step=self.step,
            epoch=self.epoch,
            in_epoch=self.in_epoch,
            finished=self.finished,
            fingerprint=self.fingerprint,
            seed=self.seed,
            stage=self.stage,
            index=self._index.freeze(),
        )

    def record(self, event: Event, task_id: str, status: TaskStatus) -> TaskRecord:
        """The record of a task that must be known and have this status.

        Raises:
            ImpossibleEventError: it is not.
        """
        record = self.tasks.get(task_id)
        require(record is not None, event, "a known task", f"unknown id {task_id!r}")
        assert record is not None
        require(record.status is status, event, f"task {task_id!r} {status.value}", record.status.value)
        return record


def require(holds: bool, event: Event, expected: str, found: object) -> None:
    """Refuse an event whose precondition does not hold.

    Raises:
        ImpossibleEventError: names the event, what it needs and what the state says.
    """
    if not holds:
        raise ImpossibleEventError(
            f"event {event.name} at step {event.step}, epoch {event.epoch} cannot follow the state: "
            f"expected {expected}, found {found}. The journal is torn or mixed up, or an event came twice."
        )
