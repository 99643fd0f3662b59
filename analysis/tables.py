"""What a run's journal proves, in numbers: the loop's funnel, its zones, its pool, its evaluations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from math import sqrt
from statistics import fmean, pvariance, stdev

from analysis.load import ZONES, Group, Record, RunData, by_epoch

HELDOUT, VALIDATION = "heldout", "validation"


@dataclass(frozen=True)
class Funnel:
    """From boundary task to retired variant, in counts of the journal's events."""

    seeds_emitted: int
    seeds_published: int
    seeds_dropped: int
    seeds_expired: int
    seeds_open: int
    variants_arrived: int
    variants_refused: dict[str, int]
    variants_waiting: int
    variants_injected: int
    variants_sampled: int
    variants_retired: dict[str, int]


@dataclass(frozen=True)
class PoolRow:
    """The pool at the start of an epoch.

    Attributes:
        seeds, variants: active original tasks, and active generated ones.
        waiting: variants that arrived and were not injected yet.
    """

    epoch: int
    seeds: int
    variants: int
    waiting: int


@dataclass(frozen=True)
class ZoneRow:
    """One zone over the whole run: groups, and the mean variance of the rewards within a group."""

    zone: str
    groups: int
    variance: float | None


@dataclass(frozen=True)
class Chain:
    """One variant's way through the loop."""

    task_id: str
    parent_id: str
    emitted_step: int
    emitted_epoch: int
    parent_mean: float
    arrived_epoch: int
    injected_epoch: int
    first_step: int
    first_mean: float
    end: str


@dataclass(frozen=True)
class Evaluation:
    """An evaluation during training.

    Attributes:
        split: heldout or validation.
        mean: of the tasks' progress rewards.
        error: standard error of `mean` over tasks; None for a single task.
        accuracy: share of the tasks of which every turn passed.
        by_type, accuracy_by_type: `mean` and `accuracy` by task type.
        scores: progress reward by task.
    """

    split: str
    step: int
    epoch: int
    mode: str
    mean: float
    error: float | None
    accuracy: float
    count: int
    by_kind: dict[str, float]
    by_type: dict[str, float]
    accuracy_by_type: dict[str, float]
    scores: dict[str, float]


def funnel(data: RunData) -> Funnel:
    """Counts of every stage of the loop."""
    outcomes = _last_outcomes(data)
    closed = Counter(outcomes.values())
    emitted = data.named("seed_emitted")
    injected = {event["task_id"] for event in data.named("variant_injected")}
    sampled = {group.task_id for group in data.groups} & injected
    return Funnel(
        seeds_emitted=len(emitted),
        seeds_published=closed["published"],
        seeds_dropped=closed["dropped"],
        seeds_expired=closed["expired"],
        seeds_open=len(emitted) - len(outcomes),
        variants_arrived=len(data.named("variant_arrived")),
        variants_waiting=len({event["task_id"] for event in data.named("variant_arrived")} - injected),
        variants_refused=dict(Counter(event["reason"] for event in data.named("variant_refused"))),
        variants_injected=len(injected),
        variants_sampled=len(sampled),
        variants_retired=dict(Counter(event["reason"] for event in data.named("task_retired"))),
    )


def pool_by_epoch(data: RunData) -> list[PoolRow]:
    """Active seeds and variants at each epoch's start, and the variants that wait."""
    rows: list[PoolRow] = []
    active: set[str] = set()
    waiting: set[str] = set()
    for event in data.events:
        match event["name"]:
            case "variant_arrived":
                waiting.add(event["task_id"])
            case "variant_injected" | "task_readmitted":
                waiting.discard(event["task_id"])
                active.add(event["task_id"])
            case "task_retired":
                active.discard(event["task_id"])
            case "epoch_started":
                count = len(active)
                rows.append(PoolRow(event["epoch"], event["active"] - count, count, len(waiting)))
    return rows


def zones_by_epoch(data: RunData) -> dict[int, dict[str, int]]:
    """Groups observed in each epoch, by zone."""
    return {
        epoch: {name: sum(group.zone == name for group in groups) for name in ZONES}
        for epoch, groups in sorted(by_epoch(data).items())
    }


def variance_by_zone(data: RunData) -> list[ZoneRow]:
    """Mean within-group reward variance of each zone: what the paper's boundary argument is about."""
    return [
        ZoneRow(name, len(groups), fmean(pvariance(group.rewards) for group in groups) if groups else None)
        for name in ZONES
        for groups in [[group for group in data.groups if group.zone == name]]
    ]


def evaluations(data: RunData, split: str = HELDOUT) -> list[Evaluation]:
    """Evaluations on a split, oldest first."""
    return [
        Evaluation(
            error=_error(list(event["scores"].values())),
            **{item.name: event[item.name] for item in fields(Evaluation) if item.name != "error"},
        )
        for event in data.named("evaluation_done")
        if event["split"] == split
    ]


def _error(scores: list[float]) -> float | None:
    return stdev(scores) / sqrt(len(scores)) if len(scores) > 1 else None


def first_means(data: RunData) -> list[float]:
    """r̄ of each variant when it was first trained on."""
    return [groups[0].mean for groups in _variant_groups(data).values() if groups]


def chains(data: RunData) -> list[Chain]:
    """Every variant that was trained on, from the seed it came from to how it ended."""
    emitted = {event["key"]: event for event in data.named("seed_emitted")}
    injected = {event["task_id"]: event["epoch"] for event in data.named("variant_injected")}
    retired = {event["task_id"]: event for event in data.named("task_retired")}
    groups = _variant_groups(data)
    return [
        _chain(arrival, emitted[arrival["key"]], injected[task_id], groups[task_id], retired.get(task_id))
        for arrival in data.named("variant_arrived")
        for task_id in [arrival["task_id"]]
        if groups.get(task_id)
    ]


def _chain(
    arrival: Record, seed: Record, injected: int, groups: list[Group], retired: Record | None
) -> Chain:
    end = f"retired in epoch {retired['epoch']}: {retired['reason']}" if retired else "live at the end"
    return Chain(
        task_id=arrival["task_id"],
        parent_id=seed["task_id"],
        emitted_step=seed["step"],
        emitted_epoch=seed["epoch"],
        parent_mean=seed["mean"],
        arrived_epoch=arrival["epoch"],
        injected_epoch=injected,
        first_step=groups[0].step,
        first_mean=groups[0].mean,
        end=end,
    )


def _variant_groups(data: RunData) -> dict[str, list[Group]]:
    groups: dict[str, list[Group]] = {event["task_id"]: [] for event in data.named("variant_injected")}
    for group in data.groups:
        if group.task_id in groups:
            groups[group.task_id].append(group)
    return groups


def _last_outcomes(data: RunData) -> dict[str, str]:
    return {event["key"]: event["outcome"] for event in data.named("seed_closed")}
