"""The fold: how each event changes the curriculum, and which events cannot have happened.

Pool, statistics and retirement are a pure function of (seed tasks, events). Recovery is a snapshot plus the
events after it, bit for bit, so an event that contradicts the state is refused loudly rather than absorbed:
it means a torn or mixed-up journal, or a bug. Which events *should* happen is decided elsewhere (boundary,
pool, retirement); here only what they do.

Order of events in a run::

    RunStarted (StageStarted? Readmissions Injections EpochStarted Steps EpochFinished)* RunFinished

where injections and readmissions carry the number of the epoch they open (streamed injections come among an epoch's
steps), arrivals and closed seeds may come at any point
after the first epoch's start, and RunStarted may come again when a later process continues the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch

from msgspec.structs import replace

from rods.config import BoundaryConfig, BufferConfig
from rods.curriculum.draft import Draft, require
from rods.curriculum.errors import CurriculumError, ImpossibleEventError
from rods.curriculum.events import (
    EpochFinished,
    EpochStarted,
    EvaluationDone,
    Event,
    GroupObserved,
    RetirementReason,
    RunFinished,
    RunStarted,
    SeedClosed,
    SeedEmitted,
    SeedOutcome,
    StageStarted,
    TaskReadmitted,
    TaskRetired,
    VariantArrived,
    VariantInjected,
    VariantRefused,
    seed_key,
)
from rods.curriculum.records import TaskRecord, TaskStatus, open_request, seed_record
from rods.curriculum.statistics import UNOBSERVED, RewardError
from rods.curriculum.value import CurriculumState, empty
from rods.tasks.model import Origin, Task

__all__ = ["CurriculumState", "apply", "excluded", "fold", "initial", "replay"]


def initial(seeds: Sequence[Task], boundary: BoundaryConfig, buffer: BufferConfig) -> CurriculumState:
    """The state before the first event: every seed active, nothing observed.

    Raises:
        CurriculumError: no seeds, an id twice, or a task that is not an original seed.
    """
    if not seeds:
        raise CurriculumError("the pool needs at least one seed task, found none: check tasks.train_count")
    draft = Draft(empty(boundary, buffer))
    for task in seeds:
        if task.id in draft.tasks:
            raise CurriculumError(f"seed task {task.id!r} appears twice; ids must be unique in a run")
        if task.origin is not Origin.SEED or task.seed_id != task.id:
            raise CurriculumError(
                f"task {task.id!r}: expected an original seed, found origin {task.origin.value!r} "
                f"and root {task.seed_id!r}"
            )
        draft.put_task(seed_record(task))
        content = task.content_id()
        if content not in draft.contents:
            draft.contents[content] = task.id
    return draft.freeze()


def replay(
    seeds: Sequence[Task], boundary: BoundaryConfig, buffer: BufferConfig, events: Iterable[Event]
) -> CurriculumState:
    """The state that a whole history leads to, from nothing but the seeds: what a snapshot must agree with.

    Raises:
        CurriculumError: as `initial`.
        ImpossibleEventError: as `fold`.
    """
    return fold(initial(seeds, boundary, buffer), events)


def apply(state: CurriculumState, event: Event) -> CurriculumState:
    """The state after one event; `state` itself is unchanged. For many events `fold` is faster.

    Raises:
        ImpossibleEventError: the event cannot follow this state; says what was expected and found.
    """
    return fold(state, (event,))


def fold(state: CurriculumState, events: Iterable[Event]) -> CurriculumState:
    """The state after all events, in order: `fold(fold(s, a), b) == fold(s, a + b)`.

    Raises:
        ImpossibleEventError: an event cannot follow the state before it.
    """
    draft = Draft(state)
    for event in events:
        _check_position(event, draft)
        _advance(event, draft)
        draft.step = event.step
    return draft.freeze()


def excluded(last_emitted: int | None, step: int, exclusion_steps: int) -> bool:
    """Whether a seed may not be emitted at `step`: once per window, and never twice in one step."""
    return last_emitted is not None and step < last_emitted + max(exclusion_steps, 1)


def _check_position(event: Event, draft: Draft) -> None:
    streams = isinstance(event, VariantInjected) and draft.in_epoch and draft.buffer.injection == "stream"
    opens = isinstance(event, EpochStarted | VariantInjected | TaskReadmitted) and not streams
    epoch = draft.epoch + 1 if opens else draft.epoch
    require(event.step >= draft.step, event, f"a step not before {draft.step}", event.step)
    require(event.epoch == epoch, event, f"epoch {epoch}", event.epoch)
    require(not (opens and draft.in_epoch), event, f"epoch {draft.epoch} to be finished first", "it is open")
    resumes = isinstance(event, RunStarted)
    require(resumes or not draft.finished, event, "nothing after run_finished but run_started", event.name)


@singledispatch
def _advance(event: Event, draft: Draft) -> None:
    raise ImpossibleEventError(f"the fold knows no event of type {type(event).__name__}")


@_advance.register
def _run_started(event: RunStarted, draft: Draft) -> None:
    if draft.fingerprint is not None:
        run = (draft.fingerprint, draft.seed)
        found = (event.fingerprint, event.seed)
        require(found == run, event, f"the same tasks and seed as before, {run}", found)
    draft.fingerprint, draft.seed, draft.finished = event.fingerprint, event.seed, False


@_advance.register
def _stage_started(event: StageStarted, draft: Draft) -> None:
    before = draft.stage
    number = 1 if before is None else before.number + 1
    require(not draft.in_epoch, event, f"epoch {draft.epoch} to be finished first", "it is open")
    require(event.stage == number, event, f"stage {number}", event.stage)
    draft.begin_stage(event)


@_advance.register
def _epoch_started(event: EpochStarted, draft: Draft) -> None:
    require(event.active == draft.active, event, f"{draft.active} active tasks", event.active)
    draft.epoch, draft.in_epoch = event.epoch, True


@_advance.register
def _group_observed(event: GroupObserved, draft: Draft) -> None:
    require(draft.in_epoch, event, "an open epoch", "none")
    record = draft.record(event, event.task_id, TaskStatus.ACTIVE)
    last = record.statistics.last_step
    require(last != event.step, event, f"one group of {event.task_id!r} per step", "a second one")
    try:
        statistics = record.statistics.observe(event.rewards, event.step, event.epoch)
    except RewardError as error:
        raise ImpossibleEventError(f"event {event.name} of task {event.task_id!r}: {error}") from error
    draft.put_task(replace(record, statistics=statistics))
    if draft.stage is not None:
        assert statistics.mean is not None
        draft.stage = draft.stage.observe(event.step, event.epoch, statistics.mean)


@_advance.register
def _seed_emitted(event: SeedEmitted, draft: Draft) -> None:
    record = draft.record(event, event.task_id, TaskStatus.ACTIVE)
    identity = (record.seed_id, record.type, seed_key(event.step, event.task_id))
    found = (event.seed_id, event.type, event.key)
    require(found == identity, event, f"seed id, type and key {identity}", found)
    mean, last_step = record.statistics.mean, record.statistics.last_step
    require(mean == event.mean, event, f"the task's latest mean {mean}", event.mean)
    anytime = draft.boundary.selection == "uniform"
    require(anytime or last_step == event.step, event, "a group of this step", f"its latest at {last_step}")
    shifts = (-1, 0, 1) if draft.boundary.depth_shift == "adaptive" else (0,)
    require(event.depth_shift in shifts, event, f"a depth shift of {shifts}", event.depth_shift)
    last = draft.last_emitted.get(event.seed_id)
    window = draft.boundary.exclusion_steps
    require(
        not excluded(last, event.step, window),
        event,
        "a seed outside its exclusion window",
        f"emitted at {last}",
    )
    draft.last_emitted[event.seed_id] = event.step
    draft.put_request(open_request(event))


@_advance.register
def _seed_closed(event: SeedClosed, draft: Draft) -> None:
    request = draft.requests.get(event.key)
    require(request is not None, event, "a known seed request", f"unknown key {event.key!r}")
    assert request is not None
    before = request.outcome
    late = before is SeedOutcome.EXPIRED and event.outcome is not SeedOutcome.EXPIRED
    require(before is None or late, event, f"seed request {event.key!r} open or expired", before)
    draft.put_request(replace(request, outcome=event.outcome))


@_advance.register
def _variant_arrived(event: VariantArrived, draft: Draft) -> None:
    request = draft.requests.get(event.key)
    require(
        draft.buffer.capacity > 0, event, "no variants in a static pool (buffer.capacity=0)", event.task_id
    )
    require(request is not None, event, "a known seed request", f"unknown key {event.key!r}")
    assert request is not None
    require(
        request.outcome in (None, SeedOutcome.EXPIRED),
        event,
        f"{event.key!r} open or expired",
        request.outcome,
    )
    require(event.seed_id == request.seed_id, event, f"root seed {request.seed_id!r}", event.seed_id)
    require(event.task_id not in draft.tasks, event, "a new task id", event.task_id)
    require(
        event.content_id not in draft.contents, event, "new content", draft.contents.get(event.content_id)
    )
    draft.contents[event.content_id] = event.task_id
    draft.put_task(
        TaskRecord(
            id=event.task_id,
            seed_id=event.seed_id,
            type=event.type,
            kind=event.kind,
            origin=Origin.VARIANT,
            status=TaskStatus.WAITING,
            reason=None,
            request=event.key,
            index=event.index,
            arrived_epoch=event.epoch,
            injected_epoch=None,
            readmitted_epoch=None,
            statistics=UNOBSERVED,
        )
    )


@_advance.register
def _variant_refused(event: VariantRefused, draft: Draft) -> None:
    draft.refused[event.reason] = (draft.refused.get(event.reason) or 0) + 1


@_advance.register
def _variant_injected(event: VariantInjected, draft: Draft) -> None:
    record = draft.record(event, event.task_id, TaskStatus.WAITING)
    draft.put_task(replace(record, status=TaskStatus.ACTIVE, injected_epoch=event.epoch))


@_advance.register
def _task_retired(event: TaskRetired, draft: Draft) -> None:
    record = draft.record(event, event.task_id, TaskStatus.ACTIVE)
    require(record.origin is Origin.VARIANT, event, "a variant: originals are never retired", event.task_id)
    mean = record.statistics.mean
    require(event.mean == mean, event, f"the task's latest mean {mean}", event.mean)
    draft.put_task(replace(record, status=TaskStatus.RETIRED, reason=event.reason))


@_advance.register
def _task_readmitted(event: TaskReadmitted, draft: Draft) -> None:
    record = draft.record(event, event.task_id, TaskStatus.RETIRED)
    mastered = record.reason is RetirementReason.DRIFT_MASTERED
    require(mastered, event, "a task that was retired as mastered", record.reason)
    draft.put_task(replace(record, status=TaskStatus.ACTIVE, reason=None, readmitted_epoch=event.epoch))


@_advance.register
def _epoch_finished(event: EpochFinished, draft: Draft) -> None:
    require(draft.in_epoch, event, "an open epoch", "none")
    draft.in_epoch = False


@_advance.register
def _run_finished(event: RunFinished, draft: Draft) -> None:
    require(not draft.in_epoch, event, f"epoch {draft.epoch} to be finished first", "it is open")
    draft.finished = True


@_advance.register
def _evaluation_done(event: EvaluationDone, draft: Draft) -> None:
    """An evaluation is reported, not decided upon: the curriculum stays as it is."""
