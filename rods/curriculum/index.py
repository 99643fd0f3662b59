"""What follows from the entries of a state and would cost a look at all of them: kept by the fold, never stored.

Counts and sets make every step's questions (how many are active, which requests are open, what waits) cost
what they answer. The digest is kept the same way: the sum of a hash per entry, so that a changed entry takes
its old hash out and puts its new one in, and the order of entries does not matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec
from immutables import Map
from immutables._protocols import MapMutation

from rods.config import BoundaryConfig
from rods.curriculum.events import RetirementReason
from rods.curriculum.records import SeedRequest, TaskRecord, TaskStatus
from rods.curriculum.zones import zone
from rods.tasks.model import Origin

UNOBSERVED_ZONE = "unobserved"
"""Stands for the zone of an active task without a mean."""

_MODULUS = 1 << 256
Label = tuple[str, ...]
_Value = TypeVar("_Value")
_ACTIVE: tuple[Label, ...] = tuple(("status", TaskStatus.ACTIVE, origin) for origin in Origin)


@dataclass(frozen=True, slots=True)
class Index:
    """What is derived from a state's entries. Sets are mappings to None.

    Attributes:
        waiting: ids of the variants that wait for injection.
        live: ids of the active variants, which count against P_max.
        open: keys of the seed requests without an outcome.
        arrived: epoch → ids of the variants that arrived in it.
        mastered: ids of the variants that were retired as mastered, which a review may bring back.
        injected: epoch → how many variants became active in it for the first time.
        counts: ("status", status, origin), ("zone", zone or "unobserved") of active tasks, ("retired", reason)
            and ("closed", outcome) → how many; what there is none of is absent.
        total: sum of all entries' hashes modulo 2^256.
    """

    waiting: Map[str, None]
    live: Map[str, None]
    open: Map[str, None]
    arrived: Map[int, Map[str, None]]
    mastered: Map[str, None]
    injected: Map[int, int]
    counts: Map[Label, int]
    total: int

    @property
    def active(self) -> int:
        """How many tasks are active."""
        return sum(self.counts.get(label, 0) for label in _ACTIVE)

    def count(self, *label: str) -> int:
        """How many there are of a label in `counts`."""
        return self.counts.get(label, 0)


EMPTY = Index(Map(), Map(), Map(), Map(), Map(), Map(), Map(), 0)
"""The index of a state without entries."""


class IndexDraft:
    """An index under construction, told of every change of an entry."""

    def __init__(self, index: Index, boundary: BoundaryConfig) -> None:
        self._boundary = boundary
        self._waiting = index.waiting.mutate()
        self._live = index.live.mutate()
        self._open = index.open.mutate()
        self._arrived = index.arrived
        self._mastered = index.mastered.mutate()
        self._injected = index.injected
        self._counts = index.counts.mutate()
        self._total = index.total

    @property
    def active(self) -> int:
        """How many tasks are active."""
        return sum(self._counts.get(label, 0) for label in _ACTIVE)

    def task(self, before: TaskRecord | None, after: TaskRecord) -> None:
        """A task's record became `after`; `before` is None for a task that was not there."""
        self._relabel(task_labels(before, self._boundary), task_labels(after, self._boundary))
        if before is None and after.request:
            ids = self._arrived.get(after.arrived_epoch, Map())
            self._arrived = self._arrived.set(after.arrived_epoch, ids.set(after.id, None))
        if before is None or before.status is not after.status:
            _keep(self._waiting, after.id, after.status is TaskStatus.WAITING)
            _keep(self._live, after.id, after.live_variant)
            _keep(self._mastered, after.id, after.reason is RetirementReason.DRIFT_MASTERED)
        self._count_injection(before, after)

    def request(self, before: SeedRequest | None, after: SeedRequest) -> None:
        """A seed request became `after`; `before` is None for one that was not there."""
        self._relabel(_request_labels(before), _request_labels(after))
        _keep(self._open, after.key, after.outcome is None)

    def shift(self, change: int) -> None:
        """Add to the sum of hashes."""
        self._total = (self._total + change) % _MODULUS

    def freeze(self) -> Index:
        """The index as it is; the draft must not be used afterwards."""
        return Index(
            self._waiting.finish(),
            self._live.finish(),
            self._open.finish(),
            self._arrived,
            self._mastered.finish(),
            self._injected,
            self._counts.finish(),
            self._total,
        )

    def _count_injection(self, before: TaskRecord | None, after: TaskRecord) -> None:
        epoch = after.injected_epoch
        if after.request and epoch is not None and (before is None or before.injected_epoch is None):
            self._injected = self._injected.set(epoch, self._injected.get(epoch, 0) + 1)

    def _relabel(self, before: tuple[Label, ...], after: tuple[Label, ...]) -> None:
        if before == after:
            return
        for label in before:
            left = self._counts[label] - 1
            if left:
                self._counts[label] = left
            else:
                del self._counts[label]
        for label in after:
            self._counts[label] = self._counts.get(label, 0) + 1


class Table(Generic[_Value]):
    """One mapping of the state under construction: reads and writes entries, and knows how its hashes changed."""

    def __init__(self, name: str, entries: Map[str, _Value]) -> None:
        self._name = name
        self._start = entries
        self._now = entries.mutate()
        self._changed: dict[str, None] = {}
        self.get = self._now.get

    def __contains__(self, key: str) -> bool:
        return key in self._now

    def values(self) -> list[_Value]:
        """All entries as they are now, in no order."""
        return [self._now[key] for key in {**dict.fromkeys(self._start), **self._changed}]

    def __setitem__(self, key: str, value: _Value) -> None:
        self._now[key] = value
        self._changed[key] = None

    def update(self, entries: Mapping[str, _Value]) -> None:
        """Set many entries."""
        for key, value in entries.items():
            self[key] = value

    def freeze(self) -> tuple[Map[str, _Value], int]:
        """The mapping as it is, and what its changes add to the sum of hashes; the table is used up."""
        now = self._now.finish()
        added = sum(_entry_hash(self._name, key, now[key]) for key in self._changed)
        removed = sum(
            _entry_hash(self._name, key, self._start[key]) for key in self._changed if key in self._start
        )
        return now, added - removed


def task_labels(record: TaskRecord | None, boundary: BoundaryConfig) -> tuple[Label, ...]:
    """What a record counts as."""
    if record is None:
        return ()
    status: Label = ("status", record.status, record.origin)
    if record.reason is not None:
        return status, ("retired", record.reason)
    if record.status is not TaskStatus.ACTIVE:
        return (status,)
    mean = record.statistics.mean
    return status, ("zone", UNOBSERVED_ZONE if mean is None else zone(mean, boundary))


def _request_labels(request: SeedRequest | None) -> tuple[Label, ...]:
    return (("closed", request.outcome),) if request is not None and request.outcome else ()


def _entry_hash(table: str, key: str, value: object) -> int:
    return int.from_bytes(hashlib.sha256(_encode((table, key, value))).digest(), "big")


def _keep(members: MapMutation[str, None], key: str, member: bool) -> None:
    if member:
        members[key] = None
    else:
        members.pop(key, None)


_encode = msgspec.json.Encoder().encode
