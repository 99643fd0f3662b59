"""Pools of any size for `benchmarks.curriculum`, made of records directly: tasks proper would take too long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from benchmarks.curriculum_peer import Plain
from rods.config import BoundaryConfig, BufferConfig
from rods.curriculum.draft import Draft
from rods.curriculum.events import GroupObserved, RetirementReason, SeedOutcome, seed_key
from rods.curriculum.records import SeedRequest, TaskRecord, TaskStatus
from rods.curriculum.statistics import UNOBSERVED, TaskStatistics
from rods.curriculum.value import CurriculumState, empty
from rods.tasks.model import Origin, TaskType

STEP, EPOCH = 100, 3
GROUPS = 32  # observed in a step
ROLLOUTS = 16
MOVED = 1000  # variants that an epoch's border injects, and retires
PER_REQUEST = 3
BOUNDARY = BoundaryConfig(quotas={kind.value: 4 for kind in TaskType})
TYPES = list(TaskType)


def buffer(size: int) -> BufferConfig:
    """P_max such that the end of an epoch retires `moved(size)` variants."""
    return BufferConfig(capacity=_live(size) - moved(size), stale_epochs=EPOCH)


def moved(size: int) -> int:
    """How many variants wait."""
    return min(size // 20, MOVED)


def ours(size: int) -> CurriculumState:
    """Our state of `size` tasks in the middle of epoch `EPOCH`."""
    draft = Draft(replace(empty(BOUNDARY, buffer(size)), step=STEP, epoch=EPOCH, in_epoch=True))
    draft.fingerprint, draft.seed = "f" * 64, 1
    for request in requests(size):
        draft.put_request(request)
    for record in records(size):
        draft.put_task(record)
        draft.contents[_content(record.id)] = record.id
    return draft.freeze()


def peer(size: int) -> Plain:
    """The same in plain dicts."""
    return Plain(
        BOUNDARY,
        buffer(size),
        {record.id: record for record in records(size)},
        {_content(record.id): record.id for record in records(size)},
        {request.key: request for request in requests(size)},
        {},
        1,
    )


def records(size: int) -> Iterator[TaskRecord]:
    """70% originals; of the variants some wait, some are live, the rest is retired."""
    seeds = size * 7 // 10
    statuses = _statuses(size)
    for number in range(seeds):
        yield _record(number, Origin.SEED, TaskStatus.ACTIVE, "", seeds)
    for number, status in enumerate(statuses):
        yield _record(seeds + number, Origin.VARIANT, status, _key(number // PER_REQUEST), seeds)


def requests(size: int) -> Iterator[SeedRequest]:
    """One for every three variants, answered, but for the last 32."""
    count = -(-len(_statuses(size)) // PER_REQUEST)
    for number in range(count):
        outcome = SeedOutcome.PUBLISHED if number < count - GROUPS else None
        yield SeedRequest(_key(number), _name(number), _name(number), STEP - 1, 1, 0.75, 0, outcome)


def groups(size: int, step: int) -> list[GroupObserved]:
    """A step's observations: three originals for every live variant."""
    random = Random(step)
    seeds = size * 7 // 10
    chosen = random.sample(range(seeds), GROUPS * 3 // 4)
    chosen += random.sample(range(seeds + moved(size), seeds + moved(size) + _live(size)), GROUPS // 4)
    rewards = [tuple(random.choices((0.0, 0.5, 1.0), k=ROLLOUTS)) for _ in chosen]
    return [
        GroupObserved(step, EPOCH, _name(number), values)
        for number, values in zip(chosen, rewards, strict=True)
    ]


def _live(size: int) -> int:
    return size * 3 // 20


def _statuses(size: int) -> list[TaskStatus]:
    variants = size - size * 7 // 10
    waiting, live = moved(size), _live(size)
    retired = variants - waiting - live
    return [TaskStatus.WAITING] * waiting + [TaskStatus.ACTIVE] * live + [TaskStatus.RETIRED] * retired


def _record(number: int, origin: Origin, status: TaskStatus, request: str, seeds: int) -> TaskRecord:
    variant = origin is Origin.VARIANT
    mean = number % 17 / 16
    seen = TaskStatistics(2, mean, 0.25, STEP - 1, EPOCH - 1, ((STEP - 50, 0.5), (STEP - 1, mean)))
    return TaskRecord(
        id=_name(number),
        seed_id=_name((number - seeds) // PER_REQUEST if variant else number),
        type=TYPES[number % len(TYPES)],
        kind="travel",
        origin=origin,
        status=status,
        reason=RetirementReason.STALE if status is TaskStatus.RETIRED else None,
        request=request,
        index=number % PER_REQUEST,
        arrived_epoch=1 if variant else 0,
        injected_epoch=None if status is TaskStatus.WAITING else 1,
        readmitted_epoch=None,
        statistics=UNOBSERVED if status is TaskStatus.WAITING else seen,
    )


def _name(number: int) -> str:
    return f"multi_turn_{number:07d}"


def _key(number: int) -> str:
    return seed_key(STEP - 1, _name(number))


def _content(name: str) -> str:
    return f"{name:0>64}"
