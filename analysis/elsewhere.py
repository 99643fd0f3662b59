"""Out-of-distribution benchmarks beside the paper: `rods_SUITE.json` files, as `rods benchmark` writes them.

A benchmark has several suites (τ²-bench: three domains), a suite has parts. A benchmark's score is the mean of its
suites, a suite's the mean of its parts, each with the same weight: our choice, the paper does not say how it averages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from analysis.comparisons import BesidePaper
from analysis.paper import Elsewhere, Paper
from analysis.seeds import summary
from analysis.systems import System
from rods.errors import RodsError
from rods.evaluation.statistics import Interval, wilson
from rods.exchange.atomic import CorruptFileError, read_json


@dataclass(frozen=True)
class Benchmark:
    """A column of the paper's table.

    Attributes:
        title: for people.
        suites: of `rods benchmark`.
        trials: conversations of one task, which are not independent of each other.
    """

    title: str
    suites: tuple[str, ...]
    trials: int = 1


BENCHMARKS = {
    "bfcl_v4": Benchmark("BFCL V4", ("bfcl_v4_web_search", "bfcl_v4_memory")),
    "tau2": Benchmark("τ²-bench", ("tau2_retail", "tau2_airline", "tau2_telecom"), trials=4),
    "acebench_agent": Benchmark("ACEBench Agent", ("acebench_agent",)),
}


class BenchmarkFileError(RodsError):
    """A file that is no result of `rods benchmark`, or one that another contradicts."""


_MOST = 10**9  # tasks: a larger count is none


@dataclass(frozen=True)
class Part:
    """One score of a suite, in [0, 1], over `count` tasks or conversations."""

    name: str
    accuracy: Annotated[float, Field(ge=0, le=1)]
    count: Annotated[int, Field(ge=1, le=_MOST)]


@dataclass(frozen=True)
class Result:
    """What `rods benchmark` found.

    Attributes:
        policy: as it was named on the command line: a folder of a run, or a model.
        version: of the suite.
    """

    suite: str
    policy: str
    version: str
    parts: Annotated[tuple[Part, ...], Field(min_length=1)]


@dataclass(frozen=True)
class Estimate:
    """A score in [0, 1] and its 95% interval over tasks."""

    value: float
    interval: Interval


def read(paths: Sequence[Path], systems: Sequence[System] = ()) -> list[Result]:
    """The results in files, in the `rods_*.json` directly in folders, and in the `evaluations/` of the systems' runs.

    Raises:
        BenchmarkFileError: a file that holds something else, or a folder without one.
    """
    named = [file for path in paths for file in _files(path)]
    runs = [run.path for system in systems for run in system.runs.values()]
    kept = [file for run in runs for file in sorted(run.glob("evaluations/**/rods_*.json"))]
    return [_read(file) for file in {file.resolve(): file for file in (*named, *kept)}.values()]


def rows(results: Sequence[Result], systems: Sequence[System], paper: Paper) -> list[BesidePaper]:
    """The paper's table for systems whose policies were tested, then for models that belong to no run here.

    A benchmark of which a suite is missing stands under the suites that are there, without the paper's figure.

    Raises:
        BenchmarkFileError: two results of one policy and suite.
    """
    by_policy: dict[str, dict[str, Result]] = defaultdict(dict)
    for result in results:
        if by_policy[result.policy].setdefault(result.suite, result) is not result:
            raise BenchmarkFileError(
                f"{result.suite} of {result.policy}: expected one result, found two; give one of them"
            )
    found: list[BesidePaper] = []
    for system in systems:
        own = [by_policy.pop(policy) for policy in list(by_policy) if _made_by(policy, system)]
        row = paper.find_elsewhere(system.experiment, system.ablation)
        found += _of_system(system.name, own, row)
    for policy, suites in by_policy.items():
        found += _of_system(policy, [suites], paper.untrained_elsewhere(policy))
    return found


def estimate(parts: Sequence[Sequence[Part]], trials: int = 1) -> Estimate:
    """Mean over suites of the mean over their parts.

    The interval puts Wilson's of the parts together as Zou and Donner do for sums of independent estimates (Statistics
    in Medicine 27, 2008); of one part it is Wilson's.

    Args:
        parts: by suite.
        trials: conversations of each task.
    """
    value, below, above = 0.0, 0.0, 0.0
    for suite in parts:
        weight = 1 / len(parts) / len(suite)
        for part in suite:
            count = max(1, part.count // trials)
            # Also of a mean reward: no scores in [0, 1] of that mean spread more than zeros and ones.
            interval = wilson(round(part.accuracy * count), count)
            value += weight * part.accuracy
            below += (weight * (part.accuracy - interval.low)) ** 2
            above += (weight * (interval.high - part.accuracy)) ** 2
    return Estimate(value, Interval(value - sqrt(below), value + sqrt(above)))


def _of_system(
    name: str, policies: Sequence[Mapping[str, Result]], row: Elsewhere | None
) -> list[BesidePaper]:
    """A row for each benchmark of which all policies have a suite."""
    found = []
    for key, benchmark in BENCHMARKS.items():
        there = [suite for suite in benchmark.suites if policies and all(suite in own for own in policies)]
        if not there:
            continue
        whole = len(there) == len(benchmark.suites)
        title = benchmark.title if whole else f"{benchmark.title}: {', '.join(there)} only"
        theirs = None if row is None or not whole else float(getattr(row, key))
        estimates = [estimate([own[suite].parts for suite in there], benchmark.trials) for own in policies]
        tasks = sum(part.count for suite in there for part in policies[0][suite].parts) // benchmark.trials
        found.append(_beside(name, title, tasks, estimates, theirs))
    return found


def _beside(
    name: str, part: str, tasks: int, estimates: Sequence[Estimate], theirs: float | None
) -> BesidePaper:
    over_seeds = summary([100 * each.value for each in estimates])
    if over_seeds.half is None:
        low, high = 100 * estimates[0].interval.low, 100 * estimates[0].interval.high
    else:
        low, high = over_seeds.mean - over_seeds.half, over_seeds.mean + over_seeds.half
    return BesidePaper(name, part, over_seeds.count, tasks, over_seeds.mean, low, high, theirs)


def _made_by(policy: str, system: System) -> bool:
    """Whether the policy lies in a run of the system; by the run's name, since a run may have been moved."""
    return any(run.name in Path(policy).parts for run in system.runs.values())


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(path.glob("rods_*.json"))
    if not found:
        raise BenchmarkFileError(f"{path}: expected rods_SUITE.json of `rods benchmark`, found none")
    return found


def _read(path: Path) -> Result:
    try:
        return TypeAdapter(Result).validate_python(read_json(path))
    except FileNotFoundError as error:
        raise BenchmarkFileError(
            f"{path}: expected a result of `rods benchmark`, found no such file"
        ) from error
    except (ValidationError, CorruptFileError) as error:
        raise BenchmarkFileError(
            f"{path}: expected a result of `rods benchmark` with suite, policy, version and "
            f"parts, found something else: {error}"
        ) from error
