"""What `rods synthesize` made, in the form in which `rods variants` shows it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rods import tasks
from rods.config import TasksConfig
from rods.errors import RodsError
from rods.exchange.atomic import read_json
from rods.synthesis.dataset import JOURNAL, MANIFEST, REJECTED
from rods.synthesis.offline import Request, finished
from rods.tasks.file import TRAIN
from rods.tasks.model import Task
from rods.variants.collect import LEFT_OUT, Attempt, Item

_PUBLISHED = "published"


def is_dataset(folder: Path) -> bool:
    """Whether `folder` is a static dataset, finished or begun, and not a run."""
    manifest = folder / MANIFEST
    return manifest.is_file() and "identity" in read_json(manifest)


def collect(folder: Path) -> list[Item]:
    """Every variant and every request without one, in the order of the requests.

    A variant that repeats another is refused; one that a finished dataset had enough without is left out.

    Raises:
        RodsError: a journal is damaged.
    """
    chosen = _values(folder / TRAIN, "id")
    refused = _values(folder / REJECTED, "key") or set()
    requests = [request for _, request in sorted(finished(folder / JOURNAL).items())]
    return [item for request in requests for item in _items(request, chosen, request.key in refused)]


def parents(folder: Path) -> Mapping[str, Task]:
    """The seed tasks by id; none where they came from a file, whose place the dataset does not keep."""
    settings: dict[str, Any] = dict(read_json(folder / MANIFEST)["identity"]["tasks"])
    settings.pop("fingerprint")
    try:
        return {task.id: task for task in tasks.load(TasksConfig(**settings)).train}
    except RodsError:
        return {}


def _values(file: Path, name: str) -> set[str] | None:
    """What the file's lines have under `name`; None before the dataset is finished."""
    return {json.loads(line)[name] for line in file.read_text().splitlines()} if file.is_file() else None


def _items(request: Request, chosen: set[str] | None, refused: bool) -> list[Item]:
    made = [Task.from_json(task) for task in request.tasks]
    attempts = tuple(
        Attempt(failure["type"], failure["function"], failure["turn"], failure["detail"])
        for failure in request.failures
    )
    if not made:
        return [_item(request, attempts, None, "dropped", request.reason)]
    return [_item(request, attempts, task, *_status(task, chosen, refused)) for task in made]


def _status(task: Task, chosen: set[str] | None, refused: bool) -> tuple[str, str]:
    if chosen is None or task.id in chosen:
        return _PUBLISHED, ""
    if refused:
        return "refused", "it repeats a variant before it (see rejected.jsonl)"
    return LEFT_OUT, "enough were there without it"


def _item(
    request: Request, attempts: tuple[Attempt, ...], task: Task | None, status: str, reason: str
) -> Item:
    return Item(
        id=task.id if task else request.key,
        key=request.key,
        parent=request.seed,
        seed=task.seed_id if task else request.seed,
        type=request.type,
        kind=task.kind if task else "",
        distance=task.provenance.get("profile_distance") if task else None,
        attempts=request.attempts,
        status=status,
        reason=reason,
        failures=attempts,
        task=task,
    )
