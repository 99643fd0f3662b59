"""The study's figures: summaries in, a matplotlib figure out. Colours, lines and size are those of the reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.figures import BLUE, GREY, ORANGE, ZONE_COLOURS, new_axes
from analysis.mechanism_figures import PAPER_RATIO
from analysis.study_figures import COLOURS, HATCHES, LINES
from benchmarks.study import compare
from benchmarks.study.arms import ARMS, RODS, STATIC, Arm
from benchmarks.study.compare import MODES, Difference
from benchmarks.study.summary import ZONES, Stretch, Summary

MODE_TITLES = {"sampled": "temperature 1", "greedy": "greedy"}
_GRID = 25  # places at which curves over CPU seconds are read


@dataclass(frozen=True)
class Told:
    """An arm and its runs by seed; at least one."""

    arm: Arm
    runs: Mapping[int, Summary]

    @property
    def list(self) -> Sequence[Summary]:
        """By seed."""
        return [self.runs[seed] for seed in sorted(self.runs)]

    @property
    def label(self) -> str:
        """For a legend."""
        return f"{self.arm.title} ({len(self.runs)})"


def curves(told: Sequence[Told]) -> Figure:
    """Held-out reward over rollouts, both decodings; the static pool's band is Student's interval over seeds."""
    figure = Figure(figsize=(9.6, 4.6), layout="constrained", dpi=130)
    panels: Sequence[Axes] = figure.subplots(1, 2)
    for axes, mode in zip(panels, MODES, strict=True):
        _panel(axes, "rollouts trained on", f"held-out progress reward, {MODE_TITLES[mode]}")
        for each, colour, line in _styled(told):
            points = compare.mean_curve(each.list, mode)
            xs, means = [x for x, _, _ in points], [mean for _, mean, _ in points]
            _dotted(axes, xs, means, (each, colour, line))
            if each.arm.name in (STATIC, RODS):
                halves = [half or 0.0 for _, _, half in points]
                low = [mean - half for mean, half in zip(means, halves, strict=True)]
                high = [mean + half for mean, half in zip(means, halves, strict=True)]
                axes.fill_between(xs, low, high, color=colour, alpha=0.15, linewidth=0)
    panels[0].legend(fontsize=7)
    return figure


def equal_compute(told: Sequence[Told]) -> Figure:
    """Mean held-out reward over CPU seconds of training and synthesis, as far as all runs went."""
    figure = Figure(figsize=(9.6, 4.6), layout="constrained", dpi=130)
    panels: Sequence[Axes] = figure.subplots(1, 2)
    end = compare.budget([run for each in told for run in each.list])
    grid = [end * place / (_GRID - 1) for place in range(_GRID)]
    for axes, mode in zip(panels, MODES, strict=True):
        _panel(axes, "CPU seconds", f"held-out progress reward, {MODE_TITLES[mode]}")
        for each, colour, line in _styled(told):
            heights = [compare.at(run, "cpu_seconds", mode, grid) for run in each.list]
            means = [fmean(column) for column in zip(*heights, strict=True)]
            axes.plot(grid, means, color=colour, linestyle=line, linewidth=_width(each), label=each.label)
    panels[0].legend(fontsize=7)
    return figure


def trained(told: Sequence[Told]) -> Figure:
    """Own reward between evaluations, and groups without variance: means over the seeds that have the stretch."""
    figure = Figure(figsize=(9.6, 4.6), layout="constrained", dpi=130)
    panels: Sequence[Axes] = figure.subplots(1, 2)
    parts = (
        ("reward", "reward of the rollouts trained on"),
        ("zero_variance", "share of groups without variance"),
    )
    for axes, (part, title) in zip(panels, parts, strict=True):
        _panel(axes, "training step", title)
        for each, colour, line in _styled(told):
            rows = [row for run in each.list for row in stretches(run)]
            steps = sorted({row.step for row in rows})
            means = [fmean(getattr(row, part) for row in rows if row.step == step) for step in steps]
            _dotted(axes, steps, means, (each, colour, line))
    panels[0].legend(fontsize=7)
    return figure


def differences(rows: Sequence[tuple[str, Mapping[str, Difference]]], against: str) -> Figure:
    """Final held-out reward less another arm's, with its interval, both decodings."""
    figure, axes = new_axes(f"held-out progress reward less that of {against}", "")
    figure.set_size_inches(7.2, 1.2 + 0.42 * len(rows))
    for mode, colour, marker, shift in (("sampled", BLUE, "o", -0.12), ("greedy", ORANGE, "s", 0.12)):
        found = [(place + shift, row[mode]) for place, (_, row) in enumerate(rows) if mode in row]
        means = [each.mean for _, each in found]
        low = [each.mean - each.interval.low if each.interval else 0.0 for _, each in found]
        high = [each.interval.high - each.mean if each.interval else 0.0 for _, each in found]
        axes.errorbar(
            means,
            [place for place, _ in found],
            xerr=[low, high],
            color=colour,
            marker=marker,
            linestyle="",
            capsize=3,
            label=MODE_TITLES[mode],
        )
    axes.axvline(0, color="black", linewidth=0.8)
    axes.xaxis.set_major_locator(MaxNLocator())
    axes.set_yticks(range(len(rows)), [title for title, _ in rows])
    axes.invert_yaxis()
    axes.legend(fontsize=8)
    return figure


def variance(told: Sequence[Told]) -> Figure:
    """Reward variance within a group, by zone: mean over the groups of all seeds."""
    figure, axes = new_axes("", "reward variance within a group")
    for place, zone in enumerate(ZONES):
        at = [index + (place - 1) * 0.27 for index in range(len(told))]
        heights = [zone_variance(each.list, zone) for each in told]
        axes.bar(at, heights, width=0.25, color=ZONE_COLOURS[zone], hatch=HATCHES[place], label=zone)
    axes.set_xticks(range(len(told)), [each.arm.title for each in told], rotation=30, ha="right", fontsize=8)
    axes.set_title(f"boundary over other zones in the paper: {PAPER_RATIO[0]}–{PAPER_RATIO[1]}", fontsize=9)
    axes.legend(fontsize=8)
    return figure


def new_variants(told: Sequence[Told]) -> Figure:
    """r̄ of variants when first trained on, and the boundary zone."""
    figure, axes = new_axes("r̄ when first trained on", "share of variants")
    making = [each for each in told if any(run.mechanism.first_means for run in each.list)]
    for each, colour, line in _styled(making):
        means = [mean for run in each.list for mean in run.mechanism.first_means]
        axes.hist(
            means,
            [edge / 20 for edge in range(21)],
            weights=[1 / len(means)] * len(means),
            histtype="step",
            color=colour,
            linestyle=line,
            label=f"{each.arm.title}: {len(means)} variants",
        )
    if making:
        low, high = making[0].list[0].mechanism.band
        axes.axvspan(low, high, color=GREY, alpha=0.15, label="boundary zone")
        axes.legend(fontsize=7)
    axes.xaxis.set_major_locator(MaxNLocator())
    return figure


def pool(told: Sequence[Told]) -> Figure:
    """Variants in the pool at each epoch's start, and retired in it (below 0); means over the seeds that reach it."""
    figure, axes = new_axes("epoch", "variants in the pool; retired in the epoch below 0")
    for each, colour, line in _styled(told):
        rows = [row for run in each.list for row in run.mechanism.pool]
        epochs = sorted({row.epoch for row in rows})
        for sign, name in ((1, "variants"), (-1, "retired")):
            heights = [
                sign * fmean(getattr(row, name) for row in rows if row.epoch == epoch) for epoch in epochs
            ]
            axes.plot(
                epochs,
                heights,
                color=colour,
                linestyle=line,
                alpha=1.0 if sign > 0 else 0.5,
                label=each.arm.title if sign > 0 else None,
            )
    axes.axhline(0, color="black", linewidth=0.8)
    axes.legend(fontsize=7)
    return figure


def latency(told: Sequence[Told]) -> Figure:
    """Steps from the detection of a seed to a variant's first use: means over the variants of all seeds."""
    figure, axes = new_axes("training steps, mean over variants", "")
    making = [each for each in told if any(run.mechanism.latency.variants for run in each.list)]
    figure.set_size_inches(7.2, 1.2 + 0.4 * len(making))
    left = [0.0] * len(making)
    titles = [each.arm.title for each in making]
    parts = zip(("synthesis", "staging", "waiting"), (BLUE, GREY, ORANGE), HATCHES, strict=False)
    for part, colour, hatch in parts:
        widths = [mean_latency(each.list, part) for each in making]
        axes.barh(titles, widths, left=left, color=colour, hatch=hatch, label=part, height=0.6)
        left = [low + width for low, width in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.legend(fontsize=8, loc="lower right")
    return figure


MECHANISM: Mapping[str, tuple[str, Callable[[Sequence[Told]], Figure]]] = {
    "variance": ("Reward variance within a group, by zone", variance),
    "new_variants": ("r̄ of new variants when first trained on", new_variants),
    "pool": ("Variants in the pool, and retired (paler)", pool),
    "latency": ("From detection to first use", latency),
}


def stretches(run: Summary) -> list[Stretch]:
    """What was trained on from one evaluation to the next, where those are not less than half the usual steps apart.

    The others, of a step or two at the end of a stage or run, hold too few groups to say something.
    """
    lengths = {end.step: end.step - begin.step for begin, end in pairwise(run.curve)}
    return [each for each in run.mechanism.trained if 2 * lengths[each.step] >= max(lengths.values())]


def zone_variance(runs: Sequence[Summary], zone: str) -> float:
    """Mean over all groups of a zone; 0 without any."""
    zones = [run.mechanism.zones[zone] for run in runs]
    groups = sum(each.groups for each in zones)
    return sum(each.groups * each.variance for each in zones) / groups if groups else 0.0


def mean_latency(runs: Sequence[Summary], part: str) -> float:
    """Mean over all variants of one part of the way; 0 without any."""
    found = [run.mechanism.latency for run in runs]
    variants = sum(each.variants for each in found)
    return sum(each.variants * getattr(each, part) for each in found) / variants if variants else 0.0


def _width(each: Told) -> float:
    """The two that the study is about stand out."""
    return 2.4 if each.arm.name in (STATIC, RODS) else 1.2


def _dotted(axes: Axes, xs: Sequence[float], ys: Sequence[float], styled: tuple[Told, str, str]) -> None:
    each, colour, line = styled
    (drawn,) = axes.plot(xs, ys, color=colour, linestyle=line, marker="o", markersize=3, label=each.label)
    drawn.set_linewidth(_width(each))


def _panel(axes: Axes, x: str, y: str) -> None:
    axes.set(xlabel=x, ylabel=y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)


def _styled(told: Sequence[Told]) -> list[tuple[Told, str, str]]:
    """Each arm with its colour and line, the same in every figure."""
    places = [ARMS.index(each.arm) for each in told]
    return [
        (each, COLOURS[place % len(COLOURS)], LINES[place % len(LINES)])
        for each, place in zip(told, places, strict=True)
    ]
