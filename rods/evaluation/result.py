"""A score with its uncertainty, as one JSON file; and the comparison of two on the same tasks."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from rods.errors import RodsError
from rods.evaluation.statistics import CONFIDENCE, Interval, mcnemar, paired_bootstrap, paired_score, wilson

RESULT = "result.json"


class ResultError(RodsError):
    """A file that is no result, or one that cannot be compared with another."""


@dataclass(frozen=True)
class Score:
    """How many tasks passed.

    Attributes:
        count, passed: tasks played, and those of which every turn passed.
        accuracy: their ratio, in [0, 1].
        interval: Wilson's, at 95%.
        progress: mean share of turns that passed.
    """

    count: int
    passed: int
    accuracy: float
    interval: Interval
    progress: float


@dataclass(frozen=True)
class Comparison:
    """One system less another, on the tasks of both.

    Attributes:
        count: tasks.
        difference: of accuracies.
        interval: of that, from a paired bootstrap within task types, at 95%.
        score_interval: of that, Newcombe's for paired data, at 95%.
        only_ours, only_theirs: tasks that one of the two passed.
        p_value: of the exact McNemar test.
    """

    count: int
    difference: float
    interval: Interval
    score_interval: Interval
    only_ours: int
    only_theirs: int
    p_value: float


def score(trajectories: Sequence[Mapping[str, Any]]) -> Score:
    """The score of at least one trajectory."""
    passed = sum(each["passed"] for each in trajectories)
    count = len(trajectories)
    progress = fmean(each["progress"] for each in trajectories)
    return Score(count, passed, passed / count, wilson(passed, count), progress)


def by_type(trajectories: Iterable[Mapping[str, Any]]) -> dict[str, Score]:
    """A score per task type, sorted by its name."""
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for each in trajectories:
        groups[each["type"]].append(each)
    return {kind: score(group) for kind, group in sorted(groups.items())}


def assemble(trajectories: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> dict[str, Any]:
    """The result as JSON.

    Args:
        facts: suite, split, policy, settings, versions, tasks: what the score is of.
    """
    return {
        **facts,
        "confidence": CONFIDENCE,
        "overall": asdict(score(trajectories)),
        "by_type": {kind: asdict(each) for kind, each in by_type(trajectories).items()},
        "ends": {end: sum(each["finish"] == end for each in trajectories) for end in ("finished", "length")},
        "tasks": {each["task_id"]: {"type": each["type"], "passed": each["passed"]} for each in trajectories},
    }


def read(path: Path) -> dict[str, Any]:
    """A result file, or the one in an evaluation's folder.

    Raises:
        ResultError: it is no result.
    """
    file = path / RESULT if path.is_dir() else path
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        passed = [task["passed"] for task in found["tasks"].values()]
        kinds = [task["type"] for task in found["tasks"].values()]
        if not all(isinstance(each, bool) for each in passed) or not all(
            isinstance(each, str) for each in kinds
        ):
            raise TypeError("tasks without a verdict")
        if not passed:
            raise ValueError("no task")
        (found["suite"], found["split"])
    except FileNotFoundError as error:
        raise ResultError(f"{file}: expected a result of `rods evaluate`, found no such file") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ResultError(
            f"{file}: expected a result of `rods evaluate`, found something else "
            f"({type(error).__name__}: {error})"
        ) from error
    return dict(found)


def compare(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Comparison:
    """Two results on the tasks of both.

    Raises:
        ResultError: of different suites or splits, or of different tasks under the same names.
    """
    for key in ("suite", "split", "fingerprint"):
        if ours.get(key) != theirs.get(key):
            raise ResultError(
                f"--against: expected a result with {key} = {ours.get(key)}, found {theirs.get(key)}; "
                "compare results on the same tasks"
            )
    pairs = [(task, theirs["tasks"][name]) for name, task in ours["tasks"].items() if name in theirs["tasks"]]
    if len(pairs) < len(ours["tasks"]):
        raise ResultError(f"--against: expected {len(ours['tasks'])} tasks, found {len(pairs)} of them")
    differences: dict[str, list[float]] = defaultdict(list)
    for mine, other in pairs:
        differences[mine["type"]].append(float(mine["passed"]) - float(other["passed"]))
    flat = [each for group in differences.values() for each in group]
    gained, lost = flat.count(1.0), flat.count(-1.0)
    both = sum(mine["passed"] and other["passed"] for mine, other in pairs)
    return Comparison(
        count=len(flat),
        difference=fmean(flat),
        interval=paired_bootstrap(differences),
        score_interval=paired_score(both, gained, lost, len(flat) - both - gained - lost),
        only_ours=gained,
        only_theirs=lost,
        p_value=mcnemar(gained, lost),
    )
