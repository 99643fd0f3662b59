"""A state under construction: the fold's workbench, private to one call of `state.fold`.

A step of training changes a few of up to 10⁵ tasks. The fold works on mappings it owns, copied once per call
and only when something in them changes, so that states stay values and steps stay cheap.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from rods.curriculum.errors import ImpossibleEventError
from rods.curriculum.events import Event
from rods.curriculum.records import CurriculumState, TaskRecord, TaskStatus


class Draft:
    """A state under construction. Mappings are shared with the state until `own` copies the one to be changed."""

    def __init__(self, state: CurriculumState) -> None:
        self._shared = {"tasks", "contents", "requests", "last_emitted", "refused"}
        self.boundary = state.boundary
        self.buffer = state.buffer
        self.tasks = state.tasks
        self.contents = state.contents
        self.requests = state.requests
        self.last_emitted = state.last_emitted
        self.refused = state.refused
        self.step = state.step
        self.epoch = state.epoch
        self.in_epoch = state.in_epoch
        self.finished = state.finished
        self.fingerprint = state.fingerprint
        self.seed = state.seed

    def own(self, mapping: str) -> dict[str, Any]:
        """The attribute `mapping` as this draft's own dictionary, to be changed in place."""
        if mapping in self._shared:
            self._shared.remove(mapping)
            setattr(self, mapping, dict(getattr(self, mapping)))
        owned: dict[str, Any] = getattr(self, mapping)
        return owned

    def freeze(self) -> CurriculumState:
        """The state as it now is; the draft must not be used afterwards."""
        return CurriculumState(**{item.name: getattr(self, item.name) for item in fields(CurriculumState)})

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
