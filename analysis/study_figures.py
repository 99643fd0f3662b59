"""Figures over several runs: one function each, systems in, a matplotlib figure out.

Okabe and Ito's colours, and another line style or hatch for each system, so that no figure needs colour to be read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, zip_longest
from math import ceil
from statistics import fmean
from textwrap import wrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis import mechanism, tables
from analysis.figures import BLUE, GREEN, GREY, ORANGE, RED, legend_below, new_axes, running
from analysis.load import RunData, by_step
from analysis.systems import System

COLOURS = (BLUE, ORANGE, GREEN, RED, "#CC79A7", "#56B4E9", "#000000", "#999999")
LINES = ("-", "--", "-.", ":")
HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo", "--")
MODES = {"greedy": "greedy", "sampled": "temperature 1"}
_MOST_PANELS = 8
_LEAST_SPAN = 0.25  # of an axis of rewards: what is smaller is mostly chance and would look like a climb
_BANDS = "bands from the lowest to the highest seed, of one seed by the standard error over the tasks"
_WIDEST_LABEL = 44  # characters of a line
_ORIGINS: dict[str, dict[str, Any]] = {
    "seeds": {"color": BLUE, "label": "original seeds"},
    "variants": {"color": ORANGE, "hatch": "//", "label": "variants"},
    "waiting": {
        "facecolor": "none",
        "edgecolor": GREY,
        "hatch": "..",
        "linestyle": "--",
        "label": "variants that wait",
    },
}


def learning_curves(systems: Sequence[System]) -> Figure | None:
    """Running mean of the training reward; the band reaches from the lowest seed to the highest; None without any."""
    figure, axes = new_axes("training step", "training reward")
    drawn = False
    for system, colour, line in styled(systems):
        drawn |= _band(axes, [_training(run) for run in system.runs.values()], colour, line, label(system))
    _widen(axes)
    legend_below(figure, axes)
    return figure if drawn else None


def heldout_curves(systems: Sequence[System]) -> Figure | None:
    """Held-out R_P, greedy beside temperature 1; by epoch, whose steps vary with the pool; None without any."""
    return _evaluated(systems, tables.HELDOUT, "held-out progress reward")


def validation_curves(systems: Sequence[System]) -> Figure | None:
    """The same on validation tasks."""
    return _evaluated(systems, tables.VALIDATION, "progress reward on validation tasks")


def _evaluated(systems: Sequence[System], split: str, title: str) -> Figure | None:
    figure = Figure(figsize=(7.2, 4.2), layout="constrained", dpi=130)
    panels = figure.subplots(1, 2, sharey=True)
    drawn = [_curves(axes, systems, split, mode) for axes, mode in zip(panels, MODES, strict=True)]
    panels[0].set_ylabel(title)
    _widen(panels[0])
    legend_below(figure, panels[drawn.index(max(drawn))])
    return figure if any(drawn) else None


def pool(systems: Sequence[System]) -> Figure | None:
    """Tasks by origin at each epoch's start, variants retired in it below 0; means over seeds; None without any."""
    trained = [system for system in systems if any(run.groups for run in system.runs.values())]
    shown = trained[:_MOST_PANELS]
    if not shown:
        return None
    columns = min(2, len(shown))
    rows = ceil(len(shown) / columns)
    figure = Figure(figsize=(7.2, 1.4 + 2.4 * rows), layout="constrained", dpi=130)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes, system in zip_longest(panels.flat, shown):
        if system is None:
            axes.axis("off")
        else:
            _pool(axes, system)
    for axes in panels[:, 0]:
        axes.set_ylabel("tasks")
    for axes in panels[-1]:
        axes.set_xlabel("epoch")
    legend_below(figure, max(panels.flat, key=lambda axes: len(axes.get_legend_handles_labels()[0])))
    return figure


def plain(text: str) -> str:
    """Text in lines that leave room for the plot, whole, and that matplotlib does not take for a formula."""
    return "\n".join(wrap(text, _WIDEST_LABEL, break_on_hyphens=False)).replace("$", r"\$")


def rows_high(labels: Sequence[str], least: float = 1.0) -> float:
    """How many lines of a plot's rows the labels take, each row at least `least`: all are as high as the highest."""
    lines = max((1 + label.count("\n") for label in labels), default=1)
    return len(labels) * max(least, 0.36 * lines)


FIGURES: dict[str, tuple[str, Callable[[Sequence[System]], Figure | None]]] = {
    "learning": ("Training reward; bands from the lowest to the highest seed", learning_curves),
    "heldout": (f"Held-out progress reward; {_BANDS}", heldout_curves),
    "validation": (f"Progress reward on validation tasks; {_BANDS}", validation_curves),
    "pool": ("Tasks by origin, variants that wait, and retirements; means over seeds", pool),
}


def styled(systems: Sequence[System]) -> list[tuple[System, str, str]]:
    """Each system with a colour and a line style."""
    return list(zip(systems, cycle(COLOURS), cycle(LINES), strict=False))


def label(system: System) -> str:
    """A system's name and how many seeds it has."""
    count = len(system.runs)
    return f"{plain(system.name)} ({count} seed{'s' if count != 1 else ''})"


def _curves(axes: Axes, systems: Sequence[System], split: str, mode: str) -> bool:
    """The curves of one kind of decoding; whether there was any."""
    drawn = False
    for system, colour, line in styled(systems):
        found = [
            [each for each in tables.evaluations(run, split) if each.mode == mode]
            for run in system.runs.values()
        ]
        curves = [{each.epoch: each.mean for each in run} for run in found]
        drawn |= _band(axes, curves, colour, line, label(system), marker="o")
        if len(found) == 1:
            _errors(axes, found[0], colour)
    axes.set(title=MODES[mode], xlabel="epoch")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return drawn


def _errors(axes: Axes, evaluations: Sequence[tables.Evaluation], colour: str) -> None:
    """One seed says nothing of others; what its own tasks leave open is a band of a standard error to each side."""
    known = [(each.epoch, each.mean, each.error) for each in evaluations if each.error is not None]
    axes.fill_between(
        [epoch for epoch, _, _ in known],
        [mean - error for _, mean, error in known],
        [mean + error for _, mean, error in known],
        color=colour,
        alpha=0.15,
        linewidth=0,
    )


def _widen(axes: Axes) -> None:
    """At least `_LEAST_SPAN` of the axis of rewards, which are never negative, around what is drawn."""
    low, high = axes.get_ylim()
    lacking = _LEAST_SPAN - (high - low)
    if lacking > 0:
        bottom = max(0.0, low - lacking / 2)
        axes.set_ylim(bottom, bottom + _LEAST_SPAN)


def _pool(axes: Axes, system: System) -> None:
    runs = list(system.runs.values())
    below: dict[int, float] = {}
    for origin, style in _ORIGINS.items():
        counts = _by_epoch(runs, origin)
        if any(counts.values()):
            axes.bar(
                list(counts), list(counts.values()), bottom=[below.get(each, 0.0) for each in counts], **style
            )
        below = {epoch: below.get(epoch, 0.0) + count for epoch, count in counts.items()}
    if gone := _retired(runs):
        axes.bar(list(gone), [-count for count in gone.values()], color=GREY, hatch="xx", label="retired")
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_title(plain(system.name), fontsize=9)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)


def _training(run: RunData) -> dict[int, float]:
    means = {step: fmean(each.mean for each in groups) for step, groups in sorted(by_step(run).items())}
    return dict(zip(means, running(list(means.values())), strict=True))


def _band(
    axes: Axes, curves: Sequence[Mapping[int, float]], colour: str, line: str, label: str, marker: str = ""
) -> bool:
    """Mean and range where all curves have a value: a mean of other runs would jump. Whether there was any."""
    curves = [curve for curve in curves if curve]
    values: dict[int, list[float]] = defaultdict(list)
    for curve in curves:
        for step, value in curve.items():
            values[step].append(value)
    steps = sorted(step for step, found in values.items() if len(found) == len(curves))
    if steps:
        means = [fmean(values[step]) for step in steps]
        axes.plot(steps, means, color=colour, linestyle=line, marker=marker or None, label=label)
        low, high = ([pick(values[step]) for step in steps] for pick in (min, max))
        axes.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
    return bool(steps)


def _by_epoch(runs: Sequence[RunData], origin: str) -> dict[int, float]:
    values: dict[int, list[int]] = defaultdict(list)
    for run in runs:
        for row in tables.pool_by_epoch(run):
            values[row.epoch].append(getattr(row, origin))
    return {epoch: fmean(counts) for epoch, counts in sorted(values.items())}


def _retired(runs: Sequence[RunData]) -> dict[int, float]:
    values: dict[int, int] = defaultdict(int)
    for run in runs:
        for epoch, reasons in mechanism.retirements(run).items():
            values[epoch] += sum(reasons.values())
    return {epoch: count / len(runs) for epoch, count in sorted(values.items())}
