"""The bounded pool: who may enter, who is injected at an epoch's border, and in which order an epoch runs.

Injection is limited to a share β of the active pool per epoch so that new tasks never swamp the ones the
policy is learning from (paper: buffer).
"""

from __future__ import annotations

from fractions import Fraction
from heapq import nsmallest

from rods.curriculum.events import SeedOutcome, VariantArrived, VariantInjected, VariantRefused
from rods.curriculum.records import TaskRecord, TaskStatus
from rods.curriculum.shuffle import shuffled
from rods.curriculum.value import CurriculumState
from rods.tasks.model import Origin, Task


def active(state: CurriculumState) -> tuple[str, ...]:
    """Ids of the tasks training may sample, sorted. To know how many, ask `active_count`."""
    return tuple(sorted(active_ids(state)))


def active_count(state: CurriculumState) -> int:
    """How many tasks training may sample; costs nothing that grows with the pool."""
    return state.index.active


def open_requests(state: CurriculumState) -> list[str]:
    """Keys of the seed requests without an outcome, sorted."""
    return sorted(state.index.open)


def arrived(state: CurriculumState, epoch: int) -> list[TaskRecord]:
    """The variants that arrived in `epoch`, in the order in which they are injected."""
    found = (state.tasks[task_id] for task_id in state.index.arrived.get(epoch, ()))
    return sorted(found, key=lambda record: queue_position(state, record))


def epoch_order(state: CurriculumState, seed: int, epoch: int) -> tuple[str, ...]:
    """The active tasks in the order an epoch visits them: a shuffle fixed by (seed, epoch, ids) alone."""
    return shuffled(active_ids(state), seed, epoch)


def active_ids(state: CurriculumState) -> list[str]:
    """Ids of the tasks training may sample, in no order."""
    return [record.id for record in state.tasks.values() if record.status is TaskStatus.ACTIVE]


def admit(
    state: CurriculumState, task: Task, key: str, index: int, step: int, epoch: int
) -> VariantArrived | VariantRefused:
    """Whether a synthesised task may wait for injection; a refusal carries its reason.

    Args:
        key: of the seed request it answers.
        index: its place among the variants of that request.
    """
    reason = _refusal(state, task, key)
    if reason is not None:
        return VariantRefused(step, epoch, task.id, key, reason)
    content = task.content_id()
    return VariantArrived(step, epoch, task.id, task.seed_id, task.type, task.kind, key, index, content)


def inject(state: CurriculumState, step: int, epoch: int) -> list[VariantInjected]:
    """The variants that become active at the border to `epoch`: at most ⌊β·active⌋, first in first out.

    First by epoch of arrival, which must lie before `epoch`; within one by emission step of the seed, its key
    and the variant's index, never by order of arrival, which depends on how fast synthesis happened to be.
    Nothing is injected while active < 1/β.
    """
    records = (state.tasks[task_id] for task_id in state.index.waiting)
    waiting = [record for record in records if record.arrived_epoch < epoch]
    room = budget(state, active_count(state))
    first = nsmallest(room, waiting, key=lambda record: queue_position(state, record))
    return [VariantInjected(step, epoch, record.id) for record in first]


def budget(state: CurriculumState, tasks: int) -> int:
    """⌊β·tasks⌋, taken of β as written: 0.29 of 100 is 29."""
    return int(Fraction(repr(state.buffer.injection_fraction)) * tasks)


def queue_position(state: CurriculumState, record: TaskRecord) -> tuple[int, int, str, int, str]:
    """Where a waiting variant stands: by epoch of arrival, then by its seed's emission, never by order of arrival."""
    request = state.requests[record.request]
    return record.arrived_epoch, request.step, request.key, record.index, record.id


def _refusal(state: CurriculumState, task: Task, key: str) -> str | None:
    request = state.requests.get(key)
    if state.buffer.capacity == 0:
        return "static_pool"
    if request is None:
        return "unknown_seed_request"
    if request.outcome not in (None, SeedOutcome.EXPIRED):
        return "seed_request_closed"
    if task.origin is not Origin.VARIANT:
        return "not_a_variant"
    if task.seed_id != request.seed_id:
        return "wrong_root_seed"
    if task.id in state.tasks:
        return "duplicate_id"
    return "duplicate_content" if task.content_id() in state.contents else None
