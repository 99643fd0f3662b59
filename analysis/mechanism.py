"""How the loop worked: how long a variant took, what was rejected and where, what boundary tasks are worth."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance

from analysis import tables
from analysis.load import RunData
from rods.exchange.replica import read_journals
from rods.exchange.rundir import RunDir

STAGES = {
    "plan": ("func_sample_failed", "decompose_failed", "no_pattern"),
    "execute": ("param_gen_failed", "vm_exec_failed"),
    "ground": ("query_gen_failed", "query_verify_failed", "query_verify_no_tag"),
    "critique": ("conversation_construct_failed", "duplicate_func"),
    "any": ("no_prompts", "pipeline_exception"),
}
"""The stage of synthesis in which a kind of failure arises; a failure keeps its kind only."""


KINDS = tuple(kind for kinds in STAGES.values() for kind in kinds)
"""Of failed attempts, in the order of the stages."""


@dataclass(frozen=True)
class Latency:
    """One variant's way in training steps.

    Attributes:
        synthesis: from the step that detected its seed to its arrival.
        staging: from there until it entered the pool.
        waiting: from there until it was first trained on.
    """

    synthesis: int
    staging: int
    waiting: int

    @property
    def total(self) -> int:
        """From detection to first use."""
        return self.synthesis + self.staging + self.waiting


def latencies(run: RunData) -> list[Latency]:
    """One for each variant that was trained on, in order of arrival."""
    emitted = {event["key"]: event["step"] for event in run.named("seed_emitted")}
    injected = {event["task_id"]: event["step"] for event in run.named("variant_injected")}
    first: dict[str, int] = {}
    for observed in run.groups:
        first.setdefault(observed.task_id, observed.step)
    return [
        Latency(
            arrival["step"] - emitted[arrival["key"]],
            injected[task] - arrival["step"],
            first[task] - injected[task],
        )
        for arrival in run.named("variant_arrived")
        for task in [arrival["task_id"]]
        if task in injected and task in first
    ]


def funnel(runs: Sequence[RunData]) -> dict[str, int]:
    """Counts from boundary task to retired variant, summed over runs."""
    total: Counter[str] = Counter()
    for run in runs:
        own = tables.funnel(run)
        failed = sum(failures(run).values())
        total.update(
            {
                "seeds emitted": own.seeds_emitted,
                "seeds answered": own.seeds_published,
                "attempts failed": failed,
                "variants arrived": own.variants_arrived,
                "variants injected": own.variants_injected,
                "variants trained on": own.variants_sampled,
                "variants retired": sum(own.variants_retired.values()),
            }
        )
    return dict(total)


def failures(run: RunData) -> dict[str, int]:
    """Failed attempts of synthesis by kind; of the seeds that the trainer's history holds."""
    keys = {event["key"] for event in run.named("seed_emitted")}
    records = read_journals(RunDir(run.path), "synthesis")
    failed = {
        (record["key"], record["index"]): record["type"]
        for record in records
        if record["name"] == "attempt_failed" and record["key"] in keys
    }
    return dict(Counter(failed.values()).most_common())


def refusals(run: RunData) -> dict[str, int]:
    """Variants that the trainer did not take, by reason."""
    return dict(Counter(event["reason"] for event in run.named("variant_refused")).most_common())


def stage_of(kind: str) -> str:
    """The stage that a kind of failure belongs to; "" for a kind that is not of the taxonomy."""
    return next((stage for stage, kinds in STAGES.items() if kind in kinds), "")


def retirements(run: RunData) -> dict[int, dict[str, int]]:
    """Variants retired in each epoch, by reason."""
    found: dict[int, Counter[str]] = defaultdict(Counter)
    for event in run.named("task_retired"):
        found[event["epoch"]][event["reason"]] += 1
    return {epoch: dict(reasons) for epoch, reasons in sorted(found.items())}


def variance_ratio(run: RunData) -> float | None:
    """Mean within-group reward variance of boundary groups, over that of all others; None where one is missing or 0."""
    inside = [pvariance(each.rewards) for each in run.groups if each.zone == "boundary"]
    outside = [pvariance(each.rewards) for each in run.groups if each.zone != "boundary"]
    if not inside or not outside or not (other := fmean(outside)):
        return None
    return fmean(inside) / other
