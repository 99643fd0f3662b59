"""The report's figures, one function each: a table in, a matplotlib figure out.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; lines also differ in style or marker.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis import tables
from analysis.load import ZONES, RunData, by_step

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#7F7F7F"
ZONE_COLOURS = {"hard": RED, "boundary": ORANGE, "mastered": GREEN}
_DECODING = {"sampled": (ORANGE, "o", "temperature 1"), "greedy": (GREEN, "s", "greedy")}
_SPLITS = {tables.HELDOUT: ("held-out", "--", True), tables.VALIDATION: ("validation", ":", False)}
_WIDE_LABEL = 48  # characters; above it a legend has one column
_SMOOTH = 4  # steps of the running mean: about one epoch of the tiny experiment


def reward_by_step(data: RunData) -> Figure | None:
    """Training reward of each step, a running mean, and evaluations; None where nothing was trained on."""
    if not data.groups:
        return None
    figure, axes = new_axes("training step", f"{data.config['reward']['name']} reward")
    means = {step: fmean(group.mean for group in groups) for step, groups in by_step(data).items()}
    steps = sorted(means)
    axes.plot(
        steps,
        [means[step] for step in steps],
        color=BLUE,
        alpha=0.35,
        linewidth=1,
        label="training, each step",
    )
    axes.plot(
        steps, running([means[step] for step in steps]), color=BLUE, label=f"training, mean of {_SMOOTH}"
    )
    for split, (name, line, filled) in _SPLITS.items():
        for mode, (colour, marker, decoding) in _DECODING.items():
            points = [point for point in tables.evaluations(data, split) if point.mode == mode]
            if points:
                axes.errorbar(
                    [point.step for point in points],
                    [point.mean for point in points],
                    yerr=[point.error or 0.0 for point in points],
                    color=colour,
                    marker=marker,
                    markerfacecolor=colour if filled else "white",
                    linestyle=line,
                    capsize=3,
                    label=f"{name}, {decoding}",
                )
    axes.set_ylim(0, 2 if data.config["reward"]["name"] == "format" else 1)
    legend_below(figure, axes)
    return figure


def zones_by_epoch(data: RunData) -> Figure | None:
    """Share of the groups of each epoch that were hard, at the boundary, mastered; None without a group."""
    rows = tables.zones_by_epoch(data)
    if not rows:
        return None
    figure, axes = new_axes("epoch", "share of task groups")
    bottom = [0.0] * len(rows)
    for name in ZONES:
        shares = [row[name] / max(sum(row.values()), 1) for row in rows.values()]
        axes.bar(list(rows), shares, bottom=bottom, color=ZONE_COLOURS[name], label=name, width=0.7)
        bottom = [low + share for low, share in zip(bottom, shares, strict=True)]
    axes.set_ylim(0, 1)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.14), ncols=3, frameon=False)
    return figure


def pool_by_origin(data: RunData) -> Figure | None:
    """Tasks at each epoch's start: live original seeds, live variants, variants that wait; None without an epoch."""
    rows = tables.pool_by_epoch(data)
    if not rows:
        return None
    figure, axes = new_axes("epoch", "tasks")
    epochs = [row.epoch for row in rows]
    seeds = [row.seeds for row in rows]
    axes.bar(epochs, seeds, color=BLUE, label="original seeds", width=0.7)
    axes.bar(
        epochs,
        [row.variants for row in rows],
        bottom=seeds,
        color=ORANGE,
        label="variants",
        width=0.7,
        hatch="//",
    )
    below = [row.seeds + row.variants for row in rows]
    waiting = [row.waiting for row in rows]
    if any(waiting):
        axes.bar(
            epochs,
            waiting,
            bottom=below,
            facecolor="none",
            edgecolor=GREY,
            linestyle="--",
            hatch="..",
            label="variants that wait",
            width=0.7,
        )
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.14), ncols=3, frameon=False)
    return figure


def variance_by_zone(data: RunData) -> Figure | None:
    """Mean variance of the rewards within a group, by zone; None without a group."""
    rows = [row for row in tables.variance_by_zone(data) if row.variance is not None]
    if not rows:
        return None
    figure, axes = new_axes("zone", "reward variance within a group")
    names = [f"{row.zone}\n({row.groups} groups)" for row in rows]
    heights = [row.variance or 0.0 for row in rows]
    axes.bar(names, heights, color=[ZONE_COLOURS[row.zone] for row in rows], width=0.6)
    return figure


FIGURES: dict[str, tuple[str, Callable[[RunData], Figure | None]]] = {
    "reward": ("Reward by step", reward_by_step),
    "zones": ("Zones by epoch", zones_by_epoch),
    "pool": ("Pool by origin, and variants that wait", pool_by_origin),
    "variance": ("Reward variance by zone", variance_by_zone),
}


def new_axes(x: str, y: str) -> tuple[Figure, Axes]:
    """An empty plot of the house's size and style."""
    figure = Figure(figsize=(7.2, 4.2), layout="constrained", dpi=130)
    axes = figure.add_subplot()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure, axes


def legend_below(figure: Figure, axes: Axes) -> None:
    """A legend under the plot, where it hides nothing; none where nothing has a label."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        widest = max(len(line) for label in labels for line in label.split("\n"))
        columns = 1 if widest > _WIDE_LABEL else 2
        columns = 3 if widest < _WIDE_LABEL // 2 else columns
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=8, frameon=False)


def running(values: list[float]) -> list[float]:
    """The mean of each value and the three before it."""
    return [fmean(values[max(0, end - _SMOOTH) : end]) for end in range(1, len(values) + 1)]
