"""What the summaries say: each arm beside the static pool, over the seeds that both have. Pure functions of numbers.

Intervals are percentile bootstraps at 95%. A run is paired with the static run of its seed: same training tasks, same
start, same held-out tasks. Final scores resample seeds and held-out tasks, both with replacement; what there is one
number a run of, seeds alone. With few seeds such an interval is too narrow: nothing is called clear that Student's
interval over the seeds does not leave clear too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from analysis.seeds import summary
from benchmarks.study.summary import Summary
from rods.errors import RodsError
from rods.evaluation.statistics import CONFIDENCE, RESAMPLES, Interval

MODES = ("sampled", "greedy")
FEWEST = 3
"""Seeds below which nothing is said to be clear, and no interval is made of one number a run."""


class ComparisonError(RodsError):
    """Runs that cannot be compared."""


@dataclass(frozen=True)
class Difference:
    """An arm less another.

    Attributes:
        mean: over common seeds.
        interval: of the mean; None for a single number.
        half: half of Student's interval over the seeds; None for a single one.
        seeds: how many.
    """

    mean: float
    interval: Interval | None
    half: float | None
    seeds: int

    @property
    def clear(self) -> bool:
        """Whether both intervals leave 0 out, over enough seeds."""
        if self.interval is None or self.half is None or self.seeds < FEWEST:
            return False
        return abs(self.mean) > self.half and not self.interval.low <= 0 <= self.interval.high


def final(
    ours: Mapping[int, Summary], theirs: Mapping[int, Summary], score: str, without: Sequence[int] = ()
) -> Difference | None:
    """Of the last evaluation; None without a common seed.

    Args:
        ours, theirs: runs by seed.
        score: sampled, greedy, sampled_accuracy or greedy_accuracy.
        without: places of held-out tasks that are left out.
    """
    common = sorted(ours.keys() & theirs.keys())
    if not common:
        return None
    rows = [scores(ours[seed], score, without) - scores(theirs[seed], score, without) for seed in common]
    return crossed(np.array(rows))


def risen(runs: Sequence[Summary], score: str, without: Sequence[int] = ()) -> Difference:
    """The last evaluation of these runs less their first: see `final`; at least one run."""
    rows = [scores(run, score, without) - scores(run, f"start_{score}", without) for run in runs]
    return crossed(np.array(rows))


def scores(run: Summary, score: str, without: Sequence[int] = ()) -> NDArray[np.float64]:
    """The score of every held-out task but those left out, in [0, 1]; see `Summary` for their names."""
    rewards = np.array(getattr(run, score.removesuffix("_accuracy")))
    kept = np.delete(rewards, list(without))
    return (kept == 1.0).astype(float) if score.endswith("_accuracy") else kept


def crossed(differences: NDArray[np.float64]) -> Difference:
    """Mean and interval of differences [seeds, tasks]; a single seed's interval is over its tasks alone."""
    count, tasks = differences.shape
    rng = np.random.default_rng(0)
    by_seed = rng.multinomial(count, np.full(count, 1 / count), RESAMPLES) / count
    by_task = rng.multinomial(tasks, np.full(tasks, 1 / tasks), RESAMPLES) / tasks
    means = ((by_seed @ differences) * by_task).sum(1)
    half = summary(differences.mean(1).tolist()).half
    return Difference(float(differences.mean()), _interval(means), half, count)


def over_seeds(differences: Sequence[float]) -> Difference | None:
    """Mean and, from `FEWEST` seeds on, interval of one difference a seed; None without any."""
    if not differences:
        return None
    values, half = np.array(differences), summary(differences).half
    if len(values) < FEWEST:
        return Difference(float(values.mean()), None, half, len(values))
    drawn = values[np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))]
    return Difference(float(values.mean()), _interval(drawn.mean(1)), half, len(values))


def paired(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Difference | None:
    """One number a run: over common seeds."""
    return over_seeds([ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())])


def equally_spent(ours: Mapping[int, Summary], theirs: Mapping[int, Summary], mode: str) -> Difference | None:
    """Both curves read, seed by seed, where each had spent the CPU seconds that the cheaper one spent in all."""
    differences = []
    for seed in sorted(ours.keys() & theirs.keys()):
        spent = budget([ours[seed], theirs[seed]])
        high, low = (at(side[seed], "cpu_seconds", mode, [spent])[0] for side in (ours, theirs))
        differences.append(float(high - low))
    return over_seeds(differences)


def area(run: Summary, mode: str) -> float:
    """Mean height of the curve over trajectories: the area under it, divided by their number."""
    total = sum(
        (after.trajectories - before.trajectories) * (getattr(before, mode) + getattr(after, mode)) / 2
        for before, after in pairwise(run.curve)
    )
    return float(total / (run.curve[-1].trajectories - run.curve[0].trajectories))


def reached(run: Summary, mode: str, goal: float) -> float | None:
    """Trajectories after which the curve first is at `goal`, points joined by lines; None where it never is."""
    if getattr(run.curve[0], mode) >= goal:
        return 0.0
    for before, after in pairwise(run.curve):
        low, high = getattr(before, mode), getattr(after, mode)
        if high >= goal:
            share = (goal - low) / (high - low)
            return before.trajectories + share * (after.trajectories - before.trajectories)
    return None


def best(runs: Mapping[int, Summary], mode: str) -> float:
    """The highest point of the mean curve of several runs, read at the first one's evaluations."""
    grid = [point.trajectories for point in next(iter(runs.values())).curve]
    return float(max(np.mean([at(run, "trajectories", mode, grid) for run in runs.values()], axis=0)))


def at(run: Summary, axis: str, mode: str, places: Sequence[float]) -> NDArray[np.float64]:
    """The curve's height at places of an axis (trajectories, cpu_seconds, tokens, step), points joined by lines."""
    xs = [getattr(point, axis) for point in run.curve]
    return np.interp(places, xs, [getattr(point, mode) for point in run.curve])


def budget(runs: Sequence[Summary]) -> float:
    """CPU seconds that every one of `runs` spent at least: where they can be compared at equal compute.

    Raises:
        ComparisonError: no run.
    """
    if not runs:
        raise ComparisonError("equal compute: expected at least one run, found none")
    return min(run.curve[-1].cpu_seconds for run in runs)


def repeated(runs: Sequence[Summary]) -> list[int]:
    """Places of the held-out tasks that a variant of any run repeats, in content or solution: they leave all scores."""
    return sorted({place for run in runs for place in (*run.overlap.content, *run.overlap.calls)})


def mean_curve(runs: Sequence[Summary], mode: str) -> list[tuple[float, float, float | None]]:
    """(trajectories, mean, half of Student's 95% interval) at the first run's evaluations."""
    grid = [float(point.trajectories) for point in runs[0].curve]
    heights = np.array([at(run, "trajectories", mode, grid) for run in runs])
    told = [summary(list(map(float, column))) for column in heights.T]
    return [(x, each.mean, each.half) for x, each in zip(grid, told, strict=True)]


def _interval(means: NDArray[np.float64]) -> Interval:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, (tail, 1 - tail))
    return Interval(float(low), float(high))
