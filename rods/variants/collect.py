"""What became of every seed that a run handed to synthesis, joined from the files of both jobs.

The trainer's journal says which seeds were asked for and what happened to each variant in the pool; the synthesis
job's journal holds the failed attempts; the variants themselves lie in the queue and, once they arrived, in
`expanded/`. A run that is still going on is read as it stands.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import yaml

from rods import tasks
from rods.config import from_mapping
from rods.exchange.atomic import CorruptFileError
from rods.exchange.lineage import history
from rods.exchange.queue import MessageMissingError
from rods.exchange.replica import read_journals
from rods.exchange.rundir import RunDir
from rods.tasks.model import Task

REJECTED = ("dropped", "quarantined", "expired", "refused")
LEFT_OUT = "left out"
_STATES = ("ready", "claimed", "done", "quarantine")
Record = dict[str, Any]


@dataclass(frozen=True)
class Attempt:
    """One that failed: kind of the taxonomy, function and 0-based turn at fault where there is one, the words."""

    type: str
    function: str
    turn: int | None
    detail: str


@dataclass(frozen=True)
class Item:
    """A variant, or a request that no variant was accepted for.

    Attributes:
        id: the variant's, or the request's key where there is none.
        key: the request's.
        parent: the task that was handed to synthesis.
        seed: the original task at the root of the line.
        type, kind: of the task.
        distance: of Φ from the parent's; None where there is no variant.
        attempts: made for the request.
        status: published (on its way), waiting, active, retired, LEFT_OUT, or one of REJECTED.
        reason: why it was rejected or retired, "" else.
        failures: failed attempts, in order.
        task: the variant, None where there is none.
    """

    id: str
    key: str
    parent: str
    seed: str
    type: str
    kind: str
    distance: float | None
    attempts: int
    status: str
    reason: str
    failures: tuple[Attempt, ...]
    task: Task | None

    @property
    def rejected(self) -> bool:
        """Whether it never came into the pool."""
        return self.status in REJECTED

    def to_json(self) -> Record:
        """JSON object with one key per attribute, the task left out."""
        return {key: value for key, value in asdict(self).items() if key != "task"}


@dataclass(frozen=True)
class Filter:
    """Which items are wanted; an empty value wants all.

    Attributes:
        rejected: only what was rejected.
        type: of the task.
        seed: id of the parent or of the root.
    """

    rejected: bool = False
    type: str = ""
    seed: str = ""

    def takes(self, item: Item) -> bool:
        """Whether `item` is wanted."""
        return (
            (item.rejected or not self.rejected)
            and self.type in ("", item.type)
            and self.seed in ("", item.seed, item.parent)
        )


def collect(run: RunDir) -> list[Item]:
    """Every variant and every request without one, in the order of the requests.

    Raises:
        RodsError: a journal is damaged.
    """
    events = history(run.journal_dir, "train")
    answers = _answers(run)
    expanded = _expanded(run)
    failures, ends = _synthesis(read_journals(run, "synthesis"))
    pool = _pool_status(events)
    items: list[Item] = []
    for seed in (event for event in events if event["name"] == "seed_emitted"):
        key = seed["key"]
        answer = answers.get(key, {})
        variants = [expanded.get(task.id, task) for task in _tasks(answer)]
        attempts = _attempts(failures.get(key, {}), answer, variants)
        for task in variants:
            status, reason = pool.get(task.id, ("published", ""))
            items.append(_accepted(seed, task, attempts, status, reason))
        if not variants and (end := _end(events, key, answer, ends)) is not None:
            items.append(_without_variant(seed, attempts, *end))
    return items


def parents(run: RunDir) -> Mapping[str, Task]:
    """The run's seed tasks by id.

    Raises:
        RodsError: they cannot be loaded.
    """
    config = from_mapping(yaml.safe_load(run.config_file.read_text()))
    return {task.id: task for task in tasks.load(config.tasks).train}


def _accepted(seed: Record, task: Task, failures: tuple[Attempt, ...], status: str, reason: str) -> Item:
    made = task.provenance
    return Item(
        id=task.id,
        key=seed["key"],
        parent=seed["task_id"],
        seed=task.seed_id,
        type=task.type.value,
        kind=task.kind,
        distance=made.get("profile_distance"),
        attempts=made.get("attempts", len(failures) + 1),
        status=status,
        reason=reason,
        failures=failures,
        task=task,
    )


def _without_variant(seed: Record, failures: tuple[Attempt, ...], status: str, reason: str) -> Item:
    return Item(
        id=seed["key"],
        key=seed["key"],
        parent=seed["task_id"],
        seed=seed["seed_id"],
        type=seed["type"],
        kind="",
        distance=None,
        attempts=len(failures),
        status=status,
        reason=reason,
        failures=failures,
        task=None,
    )


def _end(
    events: Iterable[Record], key: str, answer: Record, ends: Mapping[str, tuple[str, str]]
) -> tuple[str, str] | None:
    """Status and reason of a request without a variant; None while it is open."""
    if key in ends:
        return ends[key]
    closed = [event for event in events if event["name"] == "seed_closed" and event["key"] == key]
    if closed:
        return closed[-1]["outcome"], closed[-1]["reason"]
    return (answer["outcome"], answer["reason"]) if answer else None


def _answers(run: RunDir) -> dict[str, Record]:
    """The synthesis job's answers by key, wherever they are in the queue."""
    queue, found = run.queue("variants"), {}
    for state in _STATES:
        for key in queue.keys(state):
            try:
                found[key] = queue.read(state, key)
            except (MessageMissingError, CorruptFileError):
                continue  # on its way to another state, or set aside by the trainer, which says so
    return found


def _expanded(run: RunDir) -> dict[str, Task]:
    """Arrived variants by id."""
    lines = (line for path in sorted(run.expanded.glob("*.jsonl")) for line in path.read_text().splitlines())
    tasks = (Task.from_json(json.loads(line)) for line in lines)
    return {task.id: task for task in tasks}


def _tasks(answer: Record) -> list[Task]:
    return [Task.from_json(task) for task in answer.get("tasks", ())]


def _synthesis(records: Iterable[Record]) -> tuple[dict[str, dict[int, Attempt]], dict[str, tuple[str, str]]]:
    """Failed attempts by key and index, and how requests without variants ended."""
    failures: dict[str, dict[int, Attempt]] = defaultdict(dict)
    ends: dict[str, tuple[str, str]] = {}
    for record in records:
        if record["name"] == "attempt_failed":
            failures[record["key"]][record["index"]] = _attempt(record)
        elif record["name"] in ("seed_dropped", "seed_quarantined"):
            ends[record["key"]] = (record["name"].removeprefix("seed_"), record["reason"])
    return failures, ends


def _attempt(data: Mapping[str, Any]) -> Attempt:
    return Attempt(data["type"], data["function"], data["turn"], data["detail"])


def _attempts(journaled: Mapping[int, Attempt], answer: Record, variants: list[Task]) -> tuple[Attempt, ...]:
    """Failed attempts; a daemon that died before it wrote them down left them in its variants."""
    if journaled or not answer:
        return tuple(journaled[index] for index in sorted(journaled))
    return tuple(_attempt(error) for task in variants for error in task.provenance.get("errors", ()))


def _pool_status(events: Iterable[Record]) -> dict[str, tuple[str, str]]:
    """Status and reason by variant id; later events win."""
    status: dict[str, tuple[str, str]] = {}
    for event in events:
        if event["name"] == "variant_arrived":
            status[event["task_id"]] = ("waiting", "")
        elif event["name"] == "variant_injected":
            status[event["task_id"]] = ("active", "")
        elif event["name"] == "variant_refused":
            # A refused repetition has the id of nothing in the pool, or of what is there already.
            status.setdefault(event["task_id"], ("refused", event["reason"]))
        elif event["name"] == "task_retired":
            status[event["task_id"]] = ("retired", event["reason"])
    return status
