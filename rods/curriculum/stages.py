"""When a stage of the run is over: a function of the state and the stage's settings, asked between epochs."""

from __future__ import annotations

from itertools import groupby
from math import fsum

from rods.config.stages import StageConfig
from rods.curriculum.records import StageRecord
from rods.curriculum.value import CurriculumState


def ending(state: CurriculumState, stage: StageConfig) -> str:
    """Why the stage under way is over: `target`, `patience` or `epochs`; "" while it is not.

    Asked of the same journal it answers the same, so that nothing about it needs to be stored.
    """
    record = state.stage
    if record is None or state.epoch == record.after_epoch:
        return ""
    if stage.target_reward is not None and _latest_mean(record, stage.target_steps) >= stage.target_reward:
        return "target"
    if stage.patience and _epochs_since_best(record) >= stage.patience:
        return "patience"
    return "epochs" if state.epoch - record.after_epoch >= stage.epochs else ""


def _latest_mean(record: StageRecord, steps: int) -> float:
    """Mean reward over the stage's latest steps, group by group; −∞ before there are so many."""
    if len(record.progress) < steps:
        return float("-inf")
    latest = record.progress[-steps:]
    return fsum(total for *_, total in latest) / sum(groups for _, _, groups, _ in latest)


def _epochs_since_best(record: StageRecord) -> int:
    means = []
    for _, rows in groupby(record.progress, key=lambda row: row[1]):
        entries = list(rows)
        means.append(fsum(row[3] for row in entries) / sum(row[2] for row in entries))
    return len(means) - 1 - means.index(max(means)) if means else 0
