"""Figures of comparisons: ablations beside the paper's, and the effect of the buffer's capacity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.comparisons import Against, rank
from analysis.figures import BLUE, ORANGE, legend_below, new_axes
from analysis.seeds import summary
from analysis.study_figures import COLOURS, LINES, plain, rows_high


def ablations(rows: Sequence[Against]) -> Figure | None:
    """Each ablation less the whole system, with its interval over seeds, and the paper's; the best measure there is."""
    measure = min((row.measure for row in rows), key=rank, default=None)
    shown = [row for row in rows if row.measure == measure and row.paired is not None]
    if not shown:
        return None
    figure, axes = new_axes(f"{measure}: difference from the whole system", "")
    for place, row in enumerate(shown):
        if row.paired is not None:
            half = row.paired.half or 0.0
            axes.errorbar(
                row.paired.mean,
                place,
                xerr=half,
                color=BLUE,
                marker="o",
                capsize=3,
                label=_once("ours", place),
            )
        if row.paper is not None:
            axes.plot(row.paper, place, color=ORANGE, marker="D", linestyle="", label=_once("paper", place))
    axes.axvline(0, color="black", linewidth=0.8)
    axes.xaxis.set_major_locator(MaxNLocator())
    names = _names(shown)
    axes.set_yticks(range(len(shown)), names)
    axes.margins(y=0.3)
    axes.invert_yaxis()
    figure.set_size_inches(7.2, 1.8 + 0.42 * rows_high(names))
    legend_below(figure, axes)
    return figure


def capacity(curves: Mapping[str, Mapping[int, Mapping[int, float]]]) -> Figure | None:
    """Score by P_max, with Student's interval over seeds; None without at least two P_max of a system."""
    if not curves:
        return None
    figure, axes = new_axes("P_max, live generated tasks", "score")
    for (name, curve), colour, line in zip(curves.items(), cycle(COLOURS), cycle(LINES), strict=False):
        points = {size: summary(list(seeds.values())) for size, seeds in curve.items()}
        means = [point.mean for point in points.values()]
        halves = [point.half or 0.0 for point in points.values()]
        axes.errorbar(
            list(points),
            means,
            yerr=halves,
            color=colour,
            linestyle=line,
            marker="o",
            capsize=3,
            label=plain(name),
        )
    legend_below(figure, axes)
    return figure


def _names(rows: Sequence[Against]) -> list[str]:
    """The ablation's name where it is enough, else the system's."""
    ablations = [row.system.ablation for row in rows]
    alone = len(set(ablations)) == len(ablations) and all(ablations)
    return ablations if alone else [plain(row.system.name) for row in rows]


def _once(label: str, place: int) -> str | None:
    """A label for the first row only, so that the legend has it once."""
    return label if place == 0 else None
