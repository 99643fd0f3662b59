"""The curriculum's vocabulary: everything that can happen to the pool, as values that go into the journal.

The state is a fold over these events, so an event carries every number a decision was made from, and nothing
that depends on the host or the clock. They cross the journal's border, so parsing is strict: an unknown name,
an unknown or missing key, a wrong type, NaN or infinity is an error, never a default.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from rods.curriculum.errors import EventFormatError
from rods.tasks.model import TaskType


class SeedOutcome(StrEnum):
    """How a seed request ended: variants published, synthesis gave up, or the barrier stopped waiting."""

    PUBLISHED = "published"
    DROPPED = "dropped"
    EXPIRED = "expired"


class RetirementReason(StrEnum):
    """Why a variant left the pool (paper: L1 burn-in, L2 drift, L3 φ-pruning, stale removal)."""

    BURN_IN = "burn_in"
    DRIFT_MASTERED = "drift_mastered"
    DRIFT_HARD = "drift_hard"
    CAPACITY = "capacity"
    STALE = "stale"


class EvaluationMode(StrEnum):
    """How evaluation answers were decoded: at the training temperature, or always the likeliest token."""

    SAMPLED = "sampled"
    GREEDY = "greedy"


@dataclass(frozen=True)
class Event:
    """Base of all events.

    Attributes:
        name: the event's name in the journal, one per class.
        step: training steps finished or under way; 0 before the first, never decreasing.
        epoch: the epoch the event belongs to; the first is 1, 0 stands for "before it".
    """

    name: ClassVar[str] = ""
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    step: int
    epoch: int

    def to_json(self) -> dict[str, Any]:
        """JSON object: `name` and one key per attribute; `parse_event` is the inverse."""
        return {"name": self.name} | {item.name: _plain(getattr(self, item.name)) for item in fields(self)}


@dataclass(frozen=True)
class RunStarted(Event):
    """A process began, or continued, the run on tasks with this fingerprint and with this seed."""

    name: ClassVar[str] = "run_started"
    fingerprint: str
    seed: int


@dataclass(frozen=True)
class StageStarted(Event):
    """The next stage begins, between two epochs.

    Attributes:
        stage: its number, from 1.
        title: its name.
        types: the types whose original tasks are active in it; none named: all.
        reward: what an episode earns in it. Under another reward than before, what was observed is forgotten.
        reason: why the stage before it ended; "" for the first.
    """

    name: ClassVar[str] = "stage_started"
    stage: int
    title: str
    types: tuple[TaskType, ...]
    reward: str
    reason: str


@dataclass(frozen=True)
class EpochStarted(Event):
    """An epoch begins with `active` tasks in the pool, this epoch's injections included."""

    name: ClassVar[str] = "epoch_started"
    active: int


@dataclass(frozen=True)
class GroupObserved(Event):
    """The K rollouts of an active task earned these rewards in this step."""

    name: ClassVar[str] = "group_observed"
    task_id: str
    rewards: tuple[float, ...]


@dataclass(frozen=True)
class SeedEmitted(Event):
    """A boundary task was handed to synthesis.

    Attributes:
        task_id: the task shown to synthesis, a seed or a variant.
        seed_id: the original task at the root of its line; the exclusion window goes by it.
        type: the task's type, whose quota it used.
        mean: r̄ of its latest group.
        phi: φ(r̄) = 4r̄(1−r̄), the rank.
        key: the request's unique id, `seed_key(step, task_id)`.
        depth_shift: 1 for variants one step deeper than the task, -1 for shallower ones, 0 for its own Φ.
    """

    name: ClassVar[str] = "seed_emitted"
    task_id: str
    seed_id: str
    type: TaskType
    mean: float
    phi: float
    key: str
    depth_shift: int


@dataclass(frozen=True)
class SeedClosed(Event):
    """Synthesis is done with a seed request, or is no longer waited for."""

    name: ClassVar[str] = "seed_closed"
    key: str
    outcome: SeedOutcome
    reason: str


@dataclass(frozen=True)
class VariantArrived(Event):
    """A synthesised task was accepted and waits; it may be injected from the next epoch on.

    Attributes:
        key: key of the seed request it answers.
        index: its place among the variants of that request.
        content_id: what `Task.content_id` says, to refuse duplicates.
    """

    name: ClassVar[str] = "variant_arrived"
    task_id: str
    seed_id: str
    type: TaskType
    kind: str
    key: str
    index: int
    content_id: str


@dataclass(frozen=True)
class VariantRefused(Event):
    """A synthesised task was not accepted; `reason` says why."""

    name: ClassVar[str] = "variant_refused"
    task_id: str
    key: str
    reason: str


@dataclass(frozen=True)
class VariantInjected(Event):
    """A waiting variant became active: at the border to `epoch`, or in it when injection streams."""

    name: ClassVar[str] = "variant_injected"
    task_id: str


@dataclass(frozen=True)
class TaskRetired(Event):
    """A variant left the pool for good; `mean` is its last r̄, None when it was never observed."""

    name: ClassVar[str] = "task_retired"
    task_id: str
    reason: RetirementReason
    mean: float | None


@dataclass(frozen=True)
class TaskReadmitted(Event):
    """A variant that was retired as mastered is active again from `epoch` on, to see whether it still is."""

    name: ClassVar[str] = "task_readmitted"
    task_id: str


@dataclass(frozen=True)
class EpochFinished(Event):
    """An epoch's steps, arrivals and retirements are done."""

    name: ClassVar[str] = "epoch_finished"


@dataclass(frozen=True)
class RunFinished(Event):
    """The run reached its planned end."""

    name: ClassVar[str] = "run_finished"


@dataclass(frozen=True)
class EvaluationDone(Event):
    """The policy was evaluated on `count` tasks of a split, one episode each.

    Attributes:
        split: heldout or validation.
        mean: mean of `scores`.
        accuracy: share of the tasks of which every turn passed.
        by_kind: mean of `scores` by the tasks' kind.
        by_type, accuracy_by_type: `mean` and `accuracy` by task type.
        scores: progress reward by task id, in [0, 1].
    """

    name: ClassVar[str] = "evaluation_done"
    split: str
    mode: EvaluationMode
    mean: float
    accuracy: float
    by_kind: dict[str, float]
    by_type: dict[str, float]
    accuracy_by_type: dict[str, float]
    scores: dict[str, float]
    count: int


EVENTS: dict[str, type[Event]] = {event.name: event for event in Event.__subclasses__()}
_ADAPTERS: dict[str, TypeAdapter[Event]] = {name: TypeAdapter(event) for name, event in EVENTS.items()}


def seed_key(step: int, task_id: str) -> str:
    """The unique id of the seed request for `task_id` at `step`; sorts by step below a million steps."""
    return f"{step:06d}-{task_id}"


def parse_event(data: Mapping[str, Any]) -> Event:
    """Inverse of `Event.to_json`.

    Raises:
        EventFormatError: unknown name, unknown or missing key, wrong type, NaN or infinity.
    """
    name = data.get("name") if isinstance(data, Mapping) else None
    if not isinstance(name, str) or name not in EVENTS:
        raise EventFormatError(
            f"curriculum event: expected an object whose name is one of {', '.join(EVENTS)}; found {data!r}. "
            "Events of other writers belong to other journals."
        )
    attributes = {key: value for key, value in data.items() if key != "name"}
    try:
        return _ADAPTERS[name].validate_json(json.dumps(attributes))
    except (ValidationError, TypeError, ValueError) as error:
        raise EventFormatError(f"curriculum event {name}: {error}; found {data!r}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, dict) else value
