"""Read a run directory into plain tables. Every figure of a report comes from here, so from the journal.

The journal is read as it lies on disk, event names and numbers; what a figure means is decided where it is
drawn, not here.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from rods.errors import RodsError
from rods.exchange.ended import failure
from rods.exchange.lineage import digest, history
from rods.exchange.metrics import read_metrics
from rods.exchange.rundir import RunDir

Record = dict[str, Any]
ZONES = ("hard", "boundary", "mastered")


class NothingToReportError(RodsError):
    """A run that has not journaled anything yet."""


@dataclass(frozen=True)
class Group:
    """The rollouts of one task in one step."""

    step: int
    epoch: int
    task_id: str
    rewards: tuple[float, ...]
    zone: str

    @property
    def mean(self) -> float:
        """r̄, the group's mean reward."""
        return fmean(self.rewards)


@dataclass(frozen=True)
class RunData:
    """One run, as its journal tells it.

    Attributes:
        name, path: of the run directory.
        config: the frozen configuration.
        events: the trainer's history, resumed attempts resolved.
        digest: SHA-256 over the events; equal for two runs that did the same.
        groups: every group observed, in order.
        metrics: the trainer's metrics file; timings only, since the journal holds no clock.
        start_note: what the start checkpoint says of itself, "" if nothing.
        failure: why its last attempt failed, "" if it did not.
    """

    name: str
    path: Path
    config: Record
    events: list[Record]
    digest: str
    groups: list[Group]
    metrics: list[Record]
    start_note: str
    failure: str

    def named(self, name: str) -> list[Record]:
        """Events of one name, in order."""
        return [event for event in self.events if event["name"] == name]

    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        return bool(self.events) and self.events[-1]["name"] == "run_finished"


def load(run_dir: Path) -> RunData:
    """Read one run.

    Raises:
        NothingToReportError: no event yet.
        RodsError: not a run directory, or a damaged journal.
    """
    run = RunDir.open(run_dir)
    events = history(run.journal_dir, "train")
    if not events:
        why = failure(run)
        raise NothingToReportError(
            f"{run_dir}: the training job has not journaled anything"
            + (f", and failed: {why}" if why else " yet; wait for its first step")
        )
    config = yaml.safe_load(run.config_file.read_text())
    return RunData(
        name=run.name,
        path=run.path,
        config=config,
        events=events,
        digest=digest(events),
        groups=[_group(event, config["boundary"]) for event in events if event["name"] == "group_observed"],
        metrics=read_metrics(run.metrics / "train.jsonl"),
        start_note=_start_note(run, config["model"]["path"]),
        failure=failure(run),
    )


def zone(mean: float, boundary: Record) -> str:
    """hard below α₋, mastered above α₊, boundary between them, both ends included (paper: boundary detection)."""
    if mean < boundary["alpha_low"]:
        return "hard"
    return "mastered" if mean > boundary["alpha_high"] else "boundary"


def by_step(data: RunData) -> dict[int, list[Group]]:
    """Groups by training step."""
    steps: dict[int, list[Group]] = defaultdict(list)
    for group in data.groups:
        steps[group.step].append(group)
    return dict(steps)


def by_epoch(data: RunData) -> dict[int, list[Group]]:
    """Groups by epoch."""
    epochs: dict[int, list[Group]] = defaultdict(list)
    for group in data.groups:
        epochs[group.epoch].append(group)
    return dict(epochs)


def _group(event: Record, boundary: Record) -> Group:
    rewards = tuple(event["rewards"])
    return Group(event["step"], event["epoch"], event["task_id"], rewards, zone(fmean(rewards), boundary))


def _start_note(run: RunDir, model_path: str) -> str:
    """The README that travels with a shipped model, as it was frozen with the run's code."""
    readme = run.code / "rods" / "assets" / model_path.removeprefix("shipped/") / "README.md"
    return readme.read_text() if model_path.startswith("shipped/") and readme.is_file() else ""
