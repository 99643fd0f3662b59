"""The plain form of the curriculum's state: dicts that are copied when they change and scanned when asked.

It makes the same decisions from the same records, without the fold's checks, so it does a little less than ours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from typing import cast

import msgspec

from rods.config import BoundaryConfig, BufferConfig
from rods.curriculum import boundary, retirement
from rods.curriculum.events import Event, GroupObserved, RetirementReason, SeedEmitted
from rods.curriculum.records import SeedRequest, TaskRecord, TaskStatus
from rods.curriculum.value import CurriculumState
from rods.curriculum.zones import phi

NAME = "plain dicts, copied and scanned"


class Stored(msgspec.Struct):
    """What the text holds: the entries."""

    tasks: dict[str, TaskRecord]
    contents: dict[str, str]
    requests: dict[str, SeedRequest]
    last_emitted: dict[str, int]


@dataclass(frozen=True)
class Plain:
    """As `CurriculumState`, of which it has what the benchmark needs."""

    boundary: BoundaryConfig
    buffer: BufferConfig
    tasks: dict[str, TaskRecord]
    contents: dict[str, str]
    requests: dict[str, SeedRequest]
    last_emitted: dict[str, int]
    seed: int | None = None

    def observe(self, groups: Iterable[GroupObserved]) -> Plain:
        """With these groups."""
        tasks = dict(self.tasks)
        for group in groups:
            record = tasks[group.task_id]
            statistics = record.statistics.observe(group.rewards, group.step, group.epoch)
            tasks[group.task_id] = msgspec.structs.replace(record, statistics=statistics)
        return replace(self, tasks=tasks)

    def select(self, groups: Sequence[GroupObserved], step: int, epoch: int) -> Plain:
        """With the step's seeds emitted."""
        last, requests = dict(self.last_emitted), dict(self.requests)
        for seed in boundary.select(cast(CurriculumState, self), groups, step, epoch):
            last[seed.seed_id] = step
            requests[seed.key] = _request(seed)
        return replace(self, last_emitted=last, requests=requests)

    def retire(self, groups: Sequence[GroupObserved], step: int, epoch: int) -> Plain:
        """Without the variants that the step's groups retire."""
        tasks = dict(self.tasks)
        for event in retirement.after_step(cast(CurriculumState, self), groups, step, epoch):
            tasks[event.task_id] = _retired(tasks[event.task_id], event.reason)
        return replace(self, tasks=tasks)

    def open_requests(self) -> list[str]:
        """Keys of the requests without an outcome, sorted."""
        return sorted(key for key, request in self.requests.items() if request.outcome is None)

    def inject(self, epoch: int) -> Plain:
        """With this epoch's injections."""
        records = self.tasks.values()
        waiting = [
            record
            for record in records
            if record.status is TaskStatus.WAITING and record.arrived_epoch < epoch
        ]
        waiting.sort(key=self._position)
        active = sum(record.status is TaskStatus.ACTIVE for record in records)
        budget = int(Fraction(repr(self.buffer.injection_fraction)) * active)
        tasks = dict(self.tasks)
        for record in waiting[:budget]:
            tasks[record.id] = msgspec.structs.replace(record, status=TaskStatus.ACTIVE, injected_epoch=epoch)
        return replace(self, tasks=tasks)

    def end_epoch(self) -> Plain:
        """Within the capacity."""
        live = sorted((record for record in self.tasks.values() if record.live_variant), key=_worth)
        tasks = dict(self.tasks)
        for record in live[self.buffer.capacity :]:
            tasks[record.id] = _retired(record, RetirementReason.CAPACITY)
        return replace(self, tasks=tasks)

    def epoch_order(self, seed: int, epoch: int) -> list[str]:
        """The active tasks by a SHA-256 of seed, epoch and id."""
        active = sorted(record.id for record in self.tasks.values() if record.status is TaskStatus.ACTIVE)
        return sorted(
            active, key=lambda task_id: hashlib.sha256(f"{seed}:{epoch}:{task_id}".encode()).digest()
        )

    def replay(self, events: Iterable[Event]) -> Plain:
        """With a tail of observations, step by step."""
        state = self
        groups = (event for event in events if isinstance(event, GroupObserved))
        for _, step in groupby(groups, key=lambda group: group.step):
            state = state.observe(step)
        return state

    def encode(self) -> bytes:
        """One sorted JSON text."""
        return msgspec.json.encode(
            Stored(self.tasks, self.contents, self.requests, self.last_emitted), order="sorted"
        )

    def digest(self) -> str:
        """SHA-256 of the text."""
        return hashlib.sha256(self.encode()).hexdigest()

    def decode(self, data: bytes) -> Plain:
        """Inverse of `encode`, under the same configuration, with the digest to compare."""
        stored = msgspec.json.decode(data, type=Stored)
        restored = replace(self, **msgspec.structs.asdict(stored))
        assert restored.digest() == hashlib.sha256(data).hexdigest()
        return restored

    def _position(self, record: TaskRecord) -> tuple[int, int, str, int, str]:
        request = self.requests[record.request]
        return record.arrived_epoch, request.step, request.key, record.index, record.id


def _request(seed: SeedEmitted) -> SeedRequest:
    return SeedRequest(
        seed.key, seed.task_id, seed.seed_id, seed.step, seed.epoch, seed.phi, seed.depth_shift, None
    )


def _retired(record: TaskRecord, reason: RetirementReason) -> TaskRecord:
    return msgspec.structs.replace(record, status=TaskStatus.RETIRED, reason=reason)


def _worth(record: TaskRecord) -> tuple[float, str]:
    mean = record.statistics.mean
    return -(retirement.UNOBSERVED_PHI if mean is None else phi(mean)), record.id
