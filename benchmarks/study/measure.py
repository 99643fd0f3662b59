"""A finished run directory in, its summary out: from the journal, the metrics and the variants, by no clock of ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pvariance
from typing import Any

from analysis import mechanism, tables
from analysis.load import Group, RunData, load
from benchmarks.study import world
from benchmarks.study.summary import (
    ZONES,
    Cost,
    Identity,
    Latency,
    Mechanism,
    Overlap,
    Point,
    PoolRow,
    Stretch,
    Summary,
    Zone,
)
from rods.errors import RodsError
from rods.exchange.lineage import digest
from rods.exchange.metrics import read_metrics
from rods.exchange.rundir import RunDir
from rods.tasks import file as task_file
from rods.tasks.model import Task

_DIGITS = 4
Record = Mapping[str, Any]


class UnfinishedError(RodsError):
    """A run that has not come to its end."""


@dataclass(frozen=True)
class Made:
    """By what a run was made: see `Summary` and `Cost`."""

    commit: str
    machine: str
    wall: float
    load: float


def measure(run_dir: Path, arm: str, seed: int, identity: Identity, made: Made) -> Summary:
    """The summary of a finished run of the study.

    Args:
        identity: what it was started as.

    Raises:
        UnfinishedError: it is not finished.
        RodsError: not a run directory, or a damaged journal.
    """
    data = load(run_dir)
    if not data.finished:
        raise UnfinishedError(
            f"{run_dir}: expected a finished run; go on with `python -m benchmarks.study run`"
        )
    sampled, greedy = (evaluations(data, mode) for mode in ("sampled", "greedy"))
    clock = Clock(data, read_metrics(run_dir / "metrics" / "synthesis.jsonl"))
    return Summary(
        arm=arm,
        seed=seed,
        identity=identity,
        digest=digest([event for event in data.events if event["name"] != "run_started"]),
        commit=made.commit,
        machine=made.machine,
        attempts=len(list((run_dir / "attempts").iterdir())),
        cost=Cost(made.wall, made.load, *(round(each, 1) for each in clock.totals())),
        curve=[_point(data, clock, sampled[step], greedy[step]) for step in sorted(sampled)],
        start_sampled=_scores(sampled[min(sampled)]),
        start_greedy=_scores(greedy[min(greedy)]),
        sampled=_scores(sampled[max(sampled)]),
        greedy=_scores(greedy[max(greedy)]),
        by_kind=_by_kind(sampled, greedy),
        zero_variance=round(fmean(map(_flat, data.groups)), _DIGITS),
        mechanism=_mechanism(data, sorted(sampled)),
        overlap=overlap(arrived(run_dir), world.heldout()),
    )


def evaluations(data: RunData, mode: str) -> dict[int, Record]:
    """Held-out evaluations by step; of several after one step (stage ends) the last."""
    return {
        event["step"]: event
        for event in data.named("evaluation_done")
        if event["mode"] == mode and event["split"] == "heldout"
    }


class Clock:
    """CPU seconds and tokens up to a step.

    Of a step that was done again after a crash the last time counts: what was lost was no part of the run.
    """

    def __init__(self, data: RunData, synthesis: Sequence[Record]) -> None:
        self._steps = {
            record["step"]: record for record in data.metrics if "cpu_seconds" in record and "time" in record
        }
        self._synthesis = synthesis
        self._evaluation = sum(
            record.get("cpu_seconds", 0.0) for record in data.metrics if record.get("event") == "evaluation"
        )

    def tokens(self, step: int) -> int:
        """Sampled in training up to `step`."""
        return sum(record["generated_tokens"] for number, record in self._steps.items() if number <= step)

    def training(self, step: int) -> float:
        """CPU seconds of the steps up to `step`."""
        return float(sum(record["cpu_seconds"] for number, record in self._steps.items() if number <= step))

    def synthesis(self, step: int) -> float:
        """CPU seconds of synthesis when `step` was over."""
        if step not in self._steps:
            return 0.0
        over = self._steps[step]["time"]
        return float(
            max((line["cpu_seconds"] for line in self._synthesis if line["time"] <= over), default=0.0)
        )

    def totals(self) -> tuple[float, float, float]:
        """CPU seconds of training, synthesis and evaluations, to the end."""
        last = max(self._steps, default=0)
        whole = max((line["cpu_seconds"] for line in self._synthesis), default=0.0)
        return self.training(last), float(whole), float(self._evaluation)


def arrived(run_dir: Path) -> list[Task]:
    """Every variant that arrived in the run, trained on or not."""
    files = sorted(RunDir.open(run_dir).path.glob("expanded/*.jsonl"))
    return [task for path in files for task in task_file.read(path)]


def overlap(variants: Sequence[Task], held: Sequence[Task]) -> Overlap:
    """Which of the held-out tasks `variants` repeat."""
    known = [world.traits(task) for task in variants]
    contents, calls = {each.content for each in known}, {each.calls for each in known}
    own = [world.traits(task) for task in held]
    return Overlap(
        len(variants),
        [place for place, each in enumerate(own) if each.content in contents],
        [place for place, each in enumerate(own) if each.calls in calls],
    )


def _point(data: RunData, clock: Clock, sampled: Record, greedy: Record) -> Point:
    step = sampled["step"]
    return Point(
        step=step,
        trajectories=sum(len(group.rewards) for group in data.groups if group.step <= step),
        tokens=clock.tokens(step),
        cpu_seconds=round(clock.training(step) + clock.synthesis(step), 2),
        sampled=round(sampled["mean"], _DIGITS),
        greedy=round(greedy["mean"], _DIGITS),
        sampled_accuracy=round(sampled["accuracy"], _DIGITS),
        greedy_accuracy=round(greedy["accuracy"], _DIGITS),
    )


def _scores(evaluation: Record) -> list[float]:
    """Of every held-out task, in order."""
    return [round(evaluation["scores"][task.id], _DIGITS) for task in world.heldout()]


def _by_kind(
    sampled: Mapping[int, Record], greedy: Mapping[int, Record]
) -> dict[str, tuple[float, float, float, float]]:
    ends = [by_step[pick(by_step)]["by_kind"] for pick in (min, max) for by_step in (sampled, greedy)]
    a, b, c, d = ({kind: round(mean, _DIGITS) for kind, mean in each.items()} for each in ends)
    return {kind: (a[kind], b[kind], c[kind], d[kind]) for kind in sorted(a)}


def _mechanism(data: RunData, evaluated: Sequence[int]) -> Mechanism:
    band = data.config["boundary"]
    return Mechanism(
        trained=_trained(data, evaluated),
        zones={name: _zone(data, name) for name in ZONES},
        first_means=[round(mean, 3) for mean in tables.first_means(data)],
        band=(band["alpha_low"], band["alpha_high"]),
        pool=_pool(data),
        latency=_latency(data),
        funnel=mechanism.funnel([data]),
        failures=mechanism.failures(data),
    )


def _trained(data: RunData, evaluated: Sequence[int]) -> list[Stretch]:
    """One for each two evaluations, by their steps, that have a judged group between them."""
    first: dict[str, int] = {}
    for group in data.groups:
        first.setdefault(group.task_id, group.step)
    judged = _judged(data)
    variants = {event["task_id"] for event in data.named("variant_arrived")}
    pairs = [
        (end, [group for group in judged if begin < group.step <= end]) for begin, end in pairwise(evaluated)
    ]
    return [
        Stretch(
            end,
            _reward(own),
            round(fmean(_flat(group) for group in own), _DIGITS),
            round(fmean(first[group.task_id] == group.step for group in own), _DIGITS),
            _reward(seeds) if seeds else None,
        )
        for end, own in pairs
        if own
        for seeds in [[group for group in own if group.task_id not in variants]]
    ]


def _reward(groups: Sequence[Group]) -> float:
    return round(fmean(reward for group in groups for reward in group.rewards), _DIGITS)


def _zone(data: RunData, name: str) -> Zone:
    variances = [pvariance(group.rewards) for group in _judged(data) if group.zone == name]
    return Zone(len(variances), round(fmean(variances), _DIGITS) if variances else 0.0)


def _flat(group: Group) -> bool:
    """Whether it has no variance, so no advantage either."""
    return len(set(group.rewards)) == 1


def _judged(data: RunData) -> list[Group]:
    """The groups but those of a stage under the format reward, which reaches 2 and knows no zones."""
    starts = [(event["step"], event["reward"]) for event in data.named("stage_started")]
    return [
        group
        for group in data.groups
        if next((reward for step, reward in reversed(starts) if step < group.step), "") != "format"
    ]


def _pool(data: RunData) -> list[PoolRow]:
    gone = Counter(event["epoch"] for event in data.named("task_retired"))
    return [
        PoolRow(row.epoch, row.seeds, row.variants, gone[row.epoch]) for row in tables.pool_by_epoch(data)
    ]


def _latency(data: RunData) -> Latency:
    found = mechanism.latencies(data)
    parts = [[getattr(each, part) for each in found] for part in ("synthesis", "staging", "waiting")]
    return Latency(len(found), *(round(fmean(part), 2) if part else 0.0 for part in parts))
