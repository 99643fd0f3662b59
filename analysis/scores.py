"""What a run scored on held-out tasks: by `rods evaluate`, and by its own evaluations during training."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis import tables
from analysis.load import RunData
from rods.errors import RodsError

OFFICIAL = "bfcl_v3 heldout, accuracy"
"""The measure that the paper's tables have."""
REWARD = {"greedy": "held-out reward, greedy", "sampled": "held-out reward, temperature 1"}
ACCURACY = {"greedy": "held-out accuracy, greedy", "sampled": "held-out accuracy, temperature 1"}
"""What a run measures by itself, by the kind of decoding: mean progress reward, and share of tasks passed."""


class ScoreError(RodsError):
    """A result file that holds something else."""


@dataclass(frozen=True)
class Score:
    """One measure of one run.

    Attributes:
        value: in [0, 1].
        count: tasks.
        by_type: value by task type.
        tasks: score of each task, whose mean is `value`.
        types: type by task; empty where the type is not told with the scores.
    """

    value: float
    count: int
    by_type: Mapping[str, float]
    tasks: Mapping[str, float]
    types: Mapping[str, str] = field(default_factory=dict)


def of_run(run: RunData) -> dict[str, Score]:
    """Score by measure: one result of each suite and split, and the last evaluation of each kind of decoding.

    Of several results that of the finished policy counts, else that of the latest checkpoint; then the newest file.

    Raises:
        ScoreError: a result that cannot be read.
    """
    own: dict[str, Score] = {}
    for point in tables.evaluations(run):
        passed = {task: float(score == 1) for task, score in point.scores.items()}
        own[REWARD[point.mode]] = Score(point.mean, point.count, point.by_type, point.scores)
        own[ACCURACY[point.mode]] = Score(point.accuracy, point.count, point.accuracy_by_type, passed)
    results = sorted(map(_result, run.path.glob("evaluations/**/result.json")), key=lambda result: result[0])
    return {measure: score for _, measure, score in results} | own


def _result(path: Path) -> tuple[tuple[float, float], str, Score]:
    """Its rank (the later the better), measure and score."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        score = Score(
            value=float(found["overall"]["accuracy"]),
            count=int(found["overall"]["count"]),
            by_type={kind: float(each["accuracy"]) for kind, each in found["by_type"].items()},
            tasks={task: float(each["passed"]) for task, each in found["tasks"].items()},
            types={task: str(each["type"]) for task, each in found["tasks"].items()},
        )
        step = found["policy"]["step"]
        rank = (math.inf if step is None else float(step), path.stat().st_mtime)
        return rank, f"{found['suite']} {found['split']}, accuracy", score
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ScoreError(
            f"{path}: expected a result of `rods evaluate`, found something else "
            f"({type(error).__name__}: {error}); remove it, or evaluate again"
        ) from error
