"""What is known about one task and about one seed request: the entries of the curriculum's state.

Compact and immutable, a million of them fit into a gigabyte; read strictly (see `snapshot`).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from rods.curriculum.events import RetirementReason, SeedEmitted, SeedOutcome
from rods.curriculum.statistics import UNOBSERVED, TaskStatistics
from rods.tasks.model import Origin, Task, TaskType


class TaskStatus(StrEnum):
    """A variant: waiting (arrived, not injected) → active (training samples it) → retired.

    A seed is active, or resting in a stage that leaves its type out.
    """

    RESTING = "resting"
    WAITING = "waiting"
    ACTIVE = "active"
    RETIRED = "retired"


class TaskRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
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
        readmitted_epoch: latest epoch in which a review brought it back, else None.
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
    readmitted_epoch: int | None
    statistics: TaskStatistics

    @property
    def live_variant(self) -> bool:
        """Whether it counts against P_max: an active variant."""
        return self.status is TaskStatus.ACTIVE and self.origin is Origin.VARIANT


class StageRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The stage under way.

    Attributes:
        number: from 1.
        title: its name.
        reward: what an episode earns in it.
        after_epoch: the last epoch before it.
        progress: (step, epoch, groups observed, sum of their mean rewards) of each of its steps.
    """

    number: int
    title: str
    reward: str
    after_epoch: int
    progress: tuple[tuple[int, int, int, float], ...] = ()

    def observe(self, step: int, epoch: int, mean: float) -> StageRecord:
        """The record after one more group."""
        rows = self.progress
        if rows and rows[-1][0] == step:
            _, _, groups, total = rows[-1]
            row, rows = (step, epoch, groups + 1, total + mean), rows[:-1]
        else:
            row = (step, epoch, 1, mean)
        return msgspec.structs.replace(self, progress=(*rows, row))


class SeedRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A seed handed to synthesis; open until it has an outcome. `depth_shift` as in `SeedEmitted`."""

    key: str
    task_id: str
    seed_id: str
    step: int
    epoch: int
    phi: float
    depth_shift: int
    outcome: SeedOutcome | None


def seed_record(task: Task) -> TaskRecord:
    """Of an original task before the first event: active, never observed."""
    return TaskRecord(
        id=task.id,
        seed_id=task.seed_id,
        type=task.type,
        kind=task.kind,
        origin=task.origin,
        status=TaskStatus.ACTIVE,
        reason=None,
        request="",
        index=0,
        arrived_epoch=0,
        injected_epoch=1,
        readmitted_epoch=None,
        statistics=UNOBSERVED,
    )


def open_request(event: SeedEmitted) -> SeedRequest:
    """Of a seed that was just emitted."""
    return SeedRequest(
        key=event.key,
        task_id=event.task_id,
        seed_id=event.seed_id,
        step=event.step,
        epoch=event.epoch,
        phi=event.phi,
        depth_shift=event.depth_shift,
        outcome=None,
    )
