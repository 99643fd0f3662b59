"""What is kept of a finished run: one small JSON file, from which every table and figure is made."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from rods.errors import RodsError
from rods.exchange.atomic import make_dirs, write_text

RESULTS = Path(__file__).parent / "results"
ZONES = ("hard", "boundary", "mastered")
STAGES = ("seeds emitted", "attempts failed", "variants arrived", "variants trained on", "variants retired")


class SummaryError(RodsError):
    """A file that is no summary."""


class Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a run's outcome follows from; two runs with equal identities are the same run.

    Attributes:
        settings: SHA-256 of every setting that is not the default, where and how it runs left out.
        policy: SHA-256 of the start policy's files.
        training, heldout: SHA-256 of its training tasks, and of the held-out ones.
    """

    settings: str
    policy: str
    training: str
    heldout: str


class Point(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One evaluation on the held-out tasks, and what it took to get there.

    Attributes:
        step, trajectories: training steps, and rollouts trained on.
        tokens: sampled so far, those of groups that were drawn again included.
        cpu_seconds: of training steps and of synthesis; starting, evaluating and checkpoints left out.
        sampled, greedy: mean progress reward at temperature 1, and greedy.
        sampled_accuracy, greedy_accuracy: share of tasks of which every turn passed.
    """

    step: int
    trajectories: int
    tokens: int
    cpu_seconds: float
    sampled: float
    greedy: float
    sampled_accuracy: float
    greedy_accuracy: float


class Zone(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Groups of one zone: how many, and the mean variance of their rewards (0 without any)."""

    groups: int
    variance: float


class PoolRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The pool at an epoch's start, and the variants that were retired in the epoch."""

    epoch: int
    seeds: int
    variants: int
    retired: int


class Stretch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was trained on between two evaluations.

    Attributes:
        step: of the later evaluation.
        reward: mean of the rollouts' rewards, at temperature 1.
        zero_variance: share of the groups whose rewards were all equal.
        fresh: share of the groups of a task that had not been trained on before.
        seed_reward: `reward` on tasks of the start pool alone; None where none was trained on.
    """

    step: int
    reward: float
    zero_variance: float
    fresh: float
    seed_reward: float | None


class Latency(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Means over the variants that were trained on, in steps: see `analysis.mechanism.Latency`."""

    variants: int
    synthesis: float
    staging: float
    waiting: float


class Mechanism(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the loop worked.

    Attributes:
        trained: from each evaluation to the next; none where only the format was rewarded.
        zones: by name.
        first_means: r̄ of each variant when it was first trained on.
        band: [α₋, α₊] of the run.
        pool: by epoch.
        latency: from the detection of a seed to a variant's first use.
        funnel: counts from seed to retired variant.
        failures: failed attempts of synthesis by kind.
    """

    trained: list[Stretch]
    zones: dict[str, Zone]
    first_means: list[float]
    band: tuple[float, float]
    pool: list[PoolRow]
    latency: Latency
    funnel: dict[str, int]
    failures: dict[str, int]


class Overlap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Held-out tasks that a variant of this run repeats, by their place in the held-out set.

    Attributes:
        variants: that arrived, trained on or not.
        content: places of those of equal content.
        calls: places of those with the same solution, in whatever words and world.
    """

    variants: int
    content: list[int]
    calls: list[int]


class Cost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a run took.

    Attributes:
        wall: seconds while it ran, all attempts.
        load: mean load average of the machine meanwhile: much above its cores, CPU seconds are worth less.
        training, synthesis, evaluation: CPU seconds.
    """

    wall: float
    load: float
    training: float
    synthesis: float
    evaluation: float


class Summary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One finished run.

    Attributes:
        arm, seed: which.
        identity: see there.
        digest: SHA-256 over its journal but the starts; equal for two runs that did the same, event for event, however
            often they were interrupted.
        commit: of the code; with a + where files were changed.
        machine: processor, and cores.
        attempts: 1, and one more for each time it was interrupted.
        cost: see there.
        curve: evaluations in order; the last is after the last step.
        start_sampled, start_greedy: the first evaluation's progress reward of every held-out task, in order.
        sampled, greedy: the last one's.
        by_kind: mean progress reward by kind of task: before training sampled and greedy, after it sampled and greedy.
        zero_variance: share of the groups whose rewards were all equal.
        mechanism, overlap: see there.
    """

    arm: str
    seed: int
    identity: Identity
    digest: str
    commit: str
    machine: str
    attempts: int
    cost: Cost
    curve: list[Point]
    start_sampled: list[float]
    start_greedy: list[float]
    sampled: list[float]
    greedy: list[float]
    by_kind: dict[str, tuple[float, float, float, float]]
    zero_variance: float
    mechanism: Mechanism
    overlap: Overlap


def path(results: Path, arm: str, seed: int) -> Path:
    """Where the summary of a run lies."""
    return results / arm / f"seed_{seed}.json"


def write(results: Path, summary: Summary) -> Path:
    """Keep a summary; one field a line, so that a change shows as one."""
    file = path(results, summary.arm, summary.seed)
    make_dirs(file.parent)
    data: dict[str, Any] = msgspec.to_builtins(summary)
    lines = [f"{json.dumps(name)}: {_line(value)}" for name, value in data.items()]
    write_text(file, "{\n" + ",\n".join(lines) + "\n}\n")
    return file


def read(file: Path) -> Summary:
    """Inverse of `write`.

    Raises:
        SummaryError: it holds something else, or the summary of another run.
    """
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Summary)
    except msgspec.DecodeError as error:
        raise SummaryError(
            f"{file}: expected a run's summary, found something else ({error}); remove it and run "
            "`python -m benchmarks.study run` again"
        ) from error
    if lack := _lack(found):
        raise SummaryError(
            f"{file}: expected the summary of a whole run, found {lack}; remove it and run "
            "`python -m benchmarks.study run` again"
        )
    if file != path(file.parent.parent, found.arm, found.seed):
        raise SummaryError(
            f"{file}: expected the summary of the run that its path names, found that of {found.arm}, seed {found.seed}"
        )
    return found


def read_all(results: Path) -> list[Summary]:
    """Every summary there is, by arm's name and seed.

    Raises:
        SummaryError: a file that is none.
    """
    return sorted(map(read, results.glob("*/seed_*.json")), key=lambda each: (each.arm, each.seed))


def of_seeds(summaries: Iterable[Summary], seeds: Iterable[int]) -> list[Summary]:
    """Those of these seeds."""
    wanted = set(seeds)
    return [each for each in summaries if each.seed in wanted]


def _lack(found: Summary) -> str:
    """What tables and figures could not be made of; "" where all is there."""
    tasks = len(found.sampled)
    scored = {len(each) for each in (found.start_sampled, found.start_greedy, found.sampled, found.greedy)}
    places = [*found.overlap.content, *found.overlap.calls]
    rising = [point.trajectories for point in found.curve]
    wrong = {
        "fewer than two evaluations, or not in order": len(rising) < 2 or rising != sorted(set(rising)),
        "no score for each held-out task, first and last, sampled and greedy": not tasks or scored != {tasks},
        "places of tasks that are none": any(not 0 <= place < tasks for place in places),
        "not every zone": set(found.mechanism.zones) != set(ZONES),
        "not every stage of the funnel": not set(STAGES) <= set(found.mechanism.funnel),
        "no scores by kind": not found.by_kind,
        "no pool": not found.mechanism.pool,
        "nothing that was trained on": not found.mechanism.trained,
    }
    return next((what for what, holds in wrong.items() if holds), "")


def _line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
