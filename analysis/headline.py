"""The study's headline figure beside one fresh run: held-out reward over rollouts, by system.

The study's curves travel with the code as `headline.json`, which `python -m benchmarks.study tables` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, cycle
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import TypeAdapter, ValidationError

from analysis import tables
from analysis.figures import legend_below, new_axes
from analysis.load import RunData
from analysis.study_figures import COLOURS, LINES, MODES
from rods.errors import RodsError
from rods.exchange.atomic import CorruptFileError, read_json

_FILE = Path(__file__).with_name("headline.json")
_BANDS = ("static", "rods")  # the comparison in question; bands of all would hide each other
_COLOURS = (*COLOURS[:6], "#8C510A", *COLOURS[7:])  # black is this run's
_SAME = (("model", "path", "shipped/tiny"), ("tasks", "source", "scripted"))


class HeadlineError(RodsError):
    """A file that does not hold the study's curves."""


@dataclass(frozen=True)
class Point:
    """Held-out progress reward after so many rollouts: mean over seeds and its 95% interval; None for one seed."""

    trajectories: int
    sampled: tuple[float, float | None, float | None]
    greedy: tuple[float, float | None, float | None]


@dataclass(frozen=True)
class Arm:
    """One system of the study."""

    arm: str
    title: str
    seeds: int
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Headline:
    """The study's curves.

    Attributes:
        page: where the study is told.
        commit: of the code that made the runs.
        tasks: how many held-out tasks.
    """

    page: str
    commit: str
    tasks: int
    arms: tuple[Arm, ...]


def load(path: Path = _FILE) -> Headline | None:
    """The study's curves; None where no study was made.

    Raises:
        HeadlineError: the file holds something else.
    """
    try:
        found = TypeAdapter(Headline).validate_python(read_json(path))
    except FileNotFoundError:
        return None
    except (ValidationError, CorruptFileError) as error:
        raise HeadlineError(
            f"{path}: expected the study's curves (page, commit, tasks, arms): {error}"
        ) from error
    return found if found.arms else None


def comparable(config: Mapping[str, Any]) -> bool:
    """Whether a run is of the study's world: its policy and its kind of tasks."""
    return all(config[section][key] == value for section, key, value in _SAME)


def figure(headline: Headline, run: RunData, mode: str) -> Figure:
    """Held-out progress reward over rollouts trained on, by the kind of decoding; this run in black."""
    drawn, axes = new_axes("rollouts trained on", f"held-out progress reward, {MODES[mode]}")
    for arm, colour, line in zip(headline.arms, cycle(_COLOURS), cycle(LINES), strict=False):
        _arm(axes, arm, mode, colour, line)
    axes.plot(*_own(run, mode), color="black", marker="o", linewidth=2.5, label="this run")
    drawn.set_size_inches(7.2, 5.2)
    legend_below(drawn, axes)
    return drawn


def _arm(axes: Axes, arm: Arm, mode: str, colour: str, line: str) -> None:
    at = [point.trajectories for point in arm.points]
    values = [getattr(point, mode) for point in arm.points]
    seeds = f"{arm.seeds} seed{'s' if arm.seeds != 1 else ''}"
    axes.plot(at, [mean for mean, *_ in values], color=colour, linestyle=line, label=f"{arm.title} ({seeds})")
    known = [(x, low, high) for x, (_, low, high) in zip(at, values, strict=True) if None not in (low, high)]
    if arm.arm in _BANDS and known:
        x, low, high = zip(*known, strict=True)
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)


def _own(run: RunData, mode: str) -> tuple[list[int], list[float]]:
    """Rollouts trained on before each evaluation of the run, and its mean."""
    steps = [group.step for group in run.groups]
    totals = dict(zip(steps, accumulate(len(group.rewards) for group in run.groups), strict=True))
    points = [point for point in tables.evaluations(run) if point.mode == mode]
    before = [
        max((total for step, total in totals.items() if step <= point.step), default=0) for point in points
    ]
    return before, [point.mean for point in points]
