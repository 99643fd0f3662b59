"""Figures over several runs: one function each, systems in, a matplotlib figure out.

Okabe and Ito's colours, and another line style or hatch for each system, so that no figure needs colour to be read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, MultipleLocator

from analysis import mechanism, tables
from analysis.figures import BLUE, GREEN, GREY, ORANGE, RED, ZONE_COLOURS, new_axes, running
from analysis.load import ZONES, RunData, by_step
from analysis.systems import System

COLOURS = (BLUE, ORANGE, GREEN, RED, "#CC79A7", "#56B4E9", "#F0E442", "#000000")
LINES = ("-", "--", "-.", ":")
HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo", "--")
PAPER_RATIO = (2.0, 2.2)  # of reward variances, boundary over the other zones; arXiv 2606.19047
_MOST_PANELS = 6


def learning_curves(systems: Sequence[System]) -> Figure:
    """Running mean of the training reward; the band reaches from the lowest seed to the highest."""
    figure, axes = new_axes("training step", "training reward")
    for system, colour, line in _styled(systems):
        _band(axes, [_training(run) for run in system.runs.values()], colour, line, _label(system))
    _legend(axes)
    return figure


def heldout_curves(systems: Sequence[System]) -> Figure | None:
    """Held-out reward with greedy decoding; by epoch, whose steps vary with the pool; None without any."""
    figure, axes = new_axes("epoch", "held-out reward, greedy")
    drawn = False
    for system, colour, line in _styled(systems):
        curves = [
            {each.epoch: each.mean for each in tables.evaluations(run) if each.mode == "greedy"}
            for run in system.runs.values()
        ]
        drawn |= _band(axes, curves, colour, line, _label(system), marker="o")
    _legend(axes)
    return figure if drawn else None


def pool(systems: Sequence[System]) -> Figure:
    """Active tasks by origin at each epoch's start, and variants retired in it (below 0); means over seeds."""
    shown = systems[:_MOST_PANELS]
    figure = Figure(figsize=(7.2, 1.2 + 2.6 * len(shown)), layout="constrained", dpi=130)
    for index, system in enumerate(shown):
        axes = figure.add_subplot(len(shown), 1, index + 1)
        runs = list(system.runs.values())
        seeds, variants = (_by_epoch(runs, origin) for origin in ("seeds", "variants"))
        axes.bar(list(seeds), list(seeds.values()), color=BLUE, label="original seeds")
        axes.bar(
            list(variants),
            list(variants.values()),
            bottom=list(seeds.values()),
            color=ORANGE,
            hatch="//",
            label="variants",
        )
        if gone := _retired(runs):
            axes.bar(list(gone), [-count for count in gone.values()], color=GREY, hatch="xx", label="retired")
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set(title=plain(system.name), xlabel="epoch", ylabel="tasks")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.spines[["top", "right"]].set_visible(False)
        _legend(axes)
    return figure


def new_variants(systems: Sequence[System]) -> Figure | None:
    """r̄ of variants when first trained on, and the boundary zone; None where no variant was trained on."""
    figure, axes = new_axes("r̄ when first trained on", "share of variants")
    drawn = False
    for system, colour, line in _styled(systems):
        means = [mean for run in system.runs.values() for mean in tables.first_means(run)]
        if means:
            label = f"{_label(system)}: {len(means)} variants"
            weights = [1 / len(means)] * len(means)
            bins = [edge / 20 for edge in range(21)]
            axes.hist(
                means, bins, weights=weights, histtype="step", color=colour, linestyle=line, label=label
            )
            drawn = True
    band = systems[0].config["boundary"]
    axes.axvspan(band["alpha_low"], band["alpha_high"], color=GREY, alpha=0.15, label="boundary zone")
    axes.xaxis.set_major_locator(MultipleLocator(0.2))
    _legend(axes)
    return figure if drawn else None


def variance(systems: Sequence[System]) -> Figure:
    """Reward variance within a group by zone; boundary over the others beside the paper's 2.0–2.2."""
    figure, axes = new_axes("system", "reward variance within a group")
    for place, zone in enumerate(ZONES):
        heights = [_zone_variance(system, zone) for system in systems]
        at = [index + (place - 1) * 0.27 for index in range(len(systems))]
        axes.bar(at, heights, width=0.25, color=ZONE_COLOURS[zone], hatch=HATCHES[place], label=zone)
    axes.set_xticks(range(len(systems)), [_ratio_label(system) for system in systems], fontsize=8)
    axes.set_title(f"boundary over other zones; paper: {PAPER_RATIO[0]}–{PAPER_RATIO[1]}", fontsize=9)
    axes.margins(y=0.25)
    _legend(axes)
    return figure


def latency(systems: Sequence[System]) -> Figure | None:
    """Steps from detection to first use, in three parts, means over variants; None without variants."""
    figure, axes = new_axes("training steps, mean over variants", "")
    found = {plain(system.name): latencies(system) for system in systems}
    found = {name: rows for name, rows in found.items() if rows}
    left = [0.0] * len(found)
    for part, colour, hatch in zip(
        ("synthesis", "staging", "waiting"), (BLUE, GREY, ORANGE), HATCHES, strict=False
    ):
        widths = [fmean(getattr(row, part) for row in rows) for rows in found.values()]
        axes.barh(list(found), widths, left=left, color=colour, hatch=hatch, label=part, height=0.5)
        left = [low + width for low, width in zip(left, widths, strict=True)]
    axes.set_ylim(-1, len(found) + 0.2)
    _legend(axes)
    return figure if found else None


def funnel(systems: Sequence[System]) -> Figure:
    """Counts from seed to retired variant, one group of bars per system."""
    figure, axes = new_axes("count, all seeds together", "")
    height = 0.8 / len(systems)
    for place, (system, colour, hatch) in enumerate(
        zip(systems, cycle(COLOURS), cycle(HATCHES), strict=False)
    ):
        counts = mechanism.funnel(list(system.runs.values()))
        at = [row + place * height for row in range(len(counts))]
        bars = axes.barh(
            at, list(counts.values()), height=height, color=colour, hatch=hatch, label=_label(system)
        )
        axes.bar_label(bars, fontsize=7)
        axes.set_yticks([row + 0.4 - height / 2 for row in range(len(counts))], list(counts))
    axes.invert_yaxis()
    _legend(axes)
    return figure


def plain(text: str) -> str:
    """Text that matplotlib does not take for a formula."""
    return text.replace("$", r"\$")


def latencies(system: System) -> list[mechanism.Latency]:
    """Of all runs."""
    return [each for run in system.runs.values() for each in mechanism.latencies(run)]


FIGURES: dict[str, tuple[str, Callable[[Sequence[System]], Figure | None]]] = {
    "learning": ("Training reward; bands from the lowest to the highest seed", learning_curves),
    "heldout": ("Held-out reward, greedy; bands from the lowest to the highest seed", heldout_curves),
    "pool": ("Active tasks by origin, and retirements", pool),
    "new_variants": ("r̄ of new variants", new_variants),
    "variance": ("Reward variance by zone", variance),
    "latency": ("Injection latency", latency),
    "funnel": ("Acceptance funnel", funnel),
}


def _styled(systems: Sequence[System]) -> list[tuple[System, str, str]]:
    return list(zip(systems, cycle(COLOURS), cycle(LINES), strict=False))


def _label(system: System) -> str:
    count = len(system.runs)
    return f"{plain(system.name)} ({count} seed{'s' if count != 1 else ''})"


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


def _zone_variance(system: System, zone: str) -> float:
    rows = [row for run in system.runs.values() for row in tables.variance_by_zone(run) if row.zone == zone]
    found = [row.variance for row in rows if row.variance is not None]
    return fmean(found) if found else 0.0


def _ratio_label(system: System) -> str:
    ratios = [ratio for run in system.runs.values() if (ratio := mechanism.variance_ratio(run)) is not None]
    return f"{plain(system.name)}\n× {fmean(ratios):.2f}" if ratios else plain(system.name)


def _legend(axes: Axes) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, loc="best")
