"""A sweep as text: its runs before the start, what became of each after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from launchers.sweep import Point, Refused, labels
from launchers.terminal import columns, launch_line


class State(StrEnum):
    """What became of a run of a sweep, as far as the launch followed it."""

    submitted = "submitted"
    queued = "queued"  # on this machine, behind others
    finished = "finished"
    stopped = "stopped"
    failed = "failed"
    not_started = "not started"


GOOD = (State.submitted, State.queued, State.finished)


@dataclass(frozen=True)
class Result:
    """What became of one run.

    Attributes:
        path: its run directory; None when there is none.
        jobs: its Slurm jobs.
        reason: what went wrong, "" for nothing.
    """

    point: Point
    state: State
    path: Path | None = None
    jobs: tuple[str, ...] = ()
    reason: str = ""


def listing(made: Sequence[Point | Refused]) -> str:
    """How many runs the sweep has, and which: number, name, what tells it from the others."""
    told = labels([point.overrides for point in made])
    names = [point.config.name if isinstance(point, Point) else "(refused)" for point in made]
    rows = [(f"{point.number:>4}", name, text) for point, name, text in zip(made, names, told, strict=True)]
    return f"{_runs(len(made))}:\n{columns(rows)}"


def costs(points: Sequence[Point]) -> str:
    """What each run is given and may cost, and the whole: at most, for one attempt of each with a time limit."""
    told = labels([point.overrides for point in points])
    rows = [("   #", "run", "config", "what is its own", "where", "GPUs", "hours", "GPU-hours")]
    for point, text in zip(points, told, strict=True):
        plan = point.plan
        cost = (f"{sum(role.gpus for role in plan.roles)}", _known(plan.time_hours), _known(plan.gpu_hours))
        rows.append((f"{point.number:>4}", point.config.name, plan.config_hash[:8], text, plan.where, *cost))
    priced = [point.plan.gpu_hours for point in points if point.plan.gpu_hours is not None]
    bound = f"at most {sum(priced):g} GPU-hours for one attempt of each" if priced else "nothing is allocated"
    first = points[0].config.launch.max_parallel
    throttle = f", {first} at once" if first else ""
    return "\n".join(
        [
            columns(rows),
            f"{_runs(len(points))}{throttle}: {bound}. Nothing was started; to see one in full, plan it alone "
            "with its overrides",
        ]
    )


def once(found: Sequence[Result]) -> list[Result]:
    """The same, with each reason told in full for the first run that has it and by that run's number for others."""
    first: dict[str, int] = {}
    told = []
    for one in found:
        number = first.setdefault(one.reason, one.point.number)
        repeated = bool(one.reason) and number != one.point.number
        told.append(replace(one, reason=f"as run {number}") if repeated else one)
    return told


def results(found: Sequence[Result]) -> str:
    """What became of every run, where it is, and how to go on."""
    rows = [
        (f"{one.point.number:>4}", one.state, str(one.path or "–"), ",".join(one.jobs), one.reason)
        for one in once(found)
    ]
    counts = {state: sum(one.state is state for one in found) for state in State}
    summary = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    lines = [columns(rows), f"{_runs(len(found))}: {summary}"]
    if any(one.state in (State.submitted, State.queued) for one in found):
        lines += ["follow: rods ls; rods status --watch RUN; rods logs RUN train -f   stop: rods cancel RUN"]
    bad = [one for one in found if one.state not in GOOD]
    lines += [f"go on: rods resume {one.path}" for one in bad if one.path]
    lines += [f"again: {launch_line(one.point.overrides)}" for one in bad if not one.path]
    return "\n".join(lines)


def duplicates(points: Sequence[Point]) -> list[str]:
    """A sentence for each set of runs that have the same configuration, seed included."""
    same: dict[str, list[int]] = {}
    for point in points:
        same.setdefault(point.plan.config_hash, []).append(point.number)
    return [
        f"runs {', '.join(map(str, numbers))} have the same configuration, seed included"
        for numbers in same.values()
        if len(numbers) > 1
    ]


def _known(figure: float | None) -> str:
    return "–" if figure is None else f"{figure:g}"


def _runs(count: int) -> str:
    return f"{count} run{'s' if count != 1 else ''}"
