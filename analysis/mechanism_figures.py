"""Figures of how the loop worked, over several runs: one function each, systems in, a matplotlib figure out.

A system is a row, so that long names fit and any number of systems can be told apart without colour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import cycle
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, MultipleLocator

from analysis import mechanism, tables
from analysis.figures import BLUE, GREY, ORANGE, ZONE_COLOURS, legend_below, new_axes
from analysis.load import ZONES
from analysis.study_figures import HATCHES, label, plain, rows_high, styled
from analysis.systems import System

PAPER_RATIO = (2.0, 2.2)  # of reward variances, boundary over the other zones; arXiv 2606.19047
PAPER_BAND = (0.25, 0.75)  # r̄ of new variants; the same
_MOST_KINDS = 12


def new_variants(systems: Sequence[System]) -> Figure | None:
    """r̄ of variants when first trained on, a box for each system, the run's zone and the paper's band; None without."""
    found = [(system, means) for system in systems if (means := _first_means(system))]
    if not found:
        return None
    labels = [_inside(system, means) for system, means in found]
    figure, axes = _rows("r̄ when first trained on", rows_high(labels))
    band = found[0][0].config["boundary"]
    axes.axvspan(band["alpha_low"], band["alpha_high"], color=GREY, alpha=0.15, label="boundary zone")
    for end, text in zip(PAPER_BAND, ("the paper's band", None), strict=True):
        axes.axvline(end, color=ORANGE, linestyle="--", label=text)
    axes.boxplot(
        [means for _, means in found],
        orientation="horizontal",
        whis=(5, 95),
        widths=0.5,
        showmeans=True,
        flierprops={"marker": ".", "markersize": 3, "markeredgecolor": GREY},
        meanprops={"marker": "D", "markersize": 4, "markerfacecolor": BLUE, "markeredgecolor": BLUE},
        medianprops={"color": "black"},
        tick_labels=labels,
    )
    axes.invert_yaxis()
    axes.set_xlim(-0.02, 1.02)
    axes.xaxis.set_major_locator(MultipleLocator(0.2))
    legend_below(figure, axes)
    return figure


def variance(systems: Sequence[System]) -> Figure | None:
    """Reward variance within a group by zone; boundary over the others beside the paper's 2.0–2.2; None without any."""
    systems = [system for system in systems if any(run.groups for run in system.runs.values())]
    if not systems:
        return None
    labels = [_ratio_label(system) for system in systems]
    figure, axes = _rows("reward variance within a group", rows_high(labels, least=1.6))
    for place, zone in enumerate(ZONES):
        widths = [_zone_variance(system, zone) for system in systems]
        at = [index + (place - 1) * 0.27 for index in range(len(systems))]
        axes.barh(at, widths, height=0.25, color=ZONE_COLOURS[zone], hatch=HATCHES[place], label=zone)
    axes.set_yticks(range(len(systems)), labels)
    axes.invert_yaxis()
    axes.xaxis.set_major_locator(MaxNLocator())
    low, high = PAPER_RATIO
    axes.set_title(f"×: boundary over the other zones; in the paper {low}–{high}", fontsize=9)
    legend_below(figure, axes)
    return figure


def latency(systems: Sequence[System]) -> Figure | None:
    """Steps from detection to first use, in three parts, means over variants; None without variants."""
    found = {plain(system.name): rows for system in systems if (rows := latencies(system))}
    if not found:
        return None
    figure, axes = _rows("training steps, mean over variants", rows_high(list(found)))
    left = [0.0] * len(found)
    for part, colour, hatch in zip(
        ("synthesis", "staging", "waiting"), (BLUE, GREY, ORANGE), HATCHES, strict=False
    ):
        widths = [fmean(getattr(row, part) for row in rows) for rows in found.values()]
        bars = axes.barh(list(found), widths, left=left, color=colour, hatch=hatch, label=part, height=0.5)
        left = [low + width for low, width in zip(left, widths, strict=True)]
    axes.bar_label(bars, [f"{total:.1f}" for total in left], padding=3, fontsize=8)
    axes.margins(x=0.1)
    axes.invert_yaxis()
    legend_below(figure, axes)
    return figure


def funnel(systems: Sequence[System]) -> Figure | None:
    """Counts from seed to retired variant, a bar for each system; None where no seed was emitted."""
    shown = [
        (system, colour, hatch, mechanism.funnel(list(system.runs.values())))
        for (system, colour, _), hatch in zip(styled(systems), cycle(HATCHES), strict=False)
    ]
    shown = [each for each in shown if any(each[-1].values())]
    if not shown:
        return None
    stages = list(shown[0][-1])
    figure, axes = _rows("count, all seeds together", len(stages) * max(1, 0.35 * len(shown)))
    height = 0.8 / len(shown)
    for place, (system, colour, hatch, counts) in enumerate(shown):
        at = [row + place * height for row in range(len(stages))]
        bars = axes.barh(
            at, list(counts.values()), height=height, color=colour, hatch=hatch, label=label(system)
        )
        axes.bar_label(bars, fontsize=7, padding=2)
    axes.set_yticks([row + 0.4 - height / 2 for row in range(len(stages))], stages)
    axes.margins(x=0.08)
    axes.invert_yaxis()
    legend_below(figure, axes)
    return figure


def rejected(systems: Sequence[System]) -> Figure | None:
    """What was rejected, by stage and kind, a bar for each system; None where nothing was."""
    found = {system.name: rejections(system) for system in systems}
    total: Counter[tuple[str, str]] = sum(found.values(), Counter())
    if not total:
        return None
    kinds = [kind for kind, _ in total.most_common(_MOST_KINDS)]
    shown = [each for each in styled(systems) if found[each[0].name]]
    figure, axes = _rows("rejected, all seeds together", len(kinds) * max(1, 0.35 * len(shown)))
    height = 0.8 / len(shown)
    for place, ((system, colour, _), hatch) in enumerate(zip(shown, cycle(HATCHES), strict=False)):
        at = [row + place * height for row in range(len(kinds))]
        counts = [found[system.name][kind] for kind in kinds]
        bars = axes.barh(at, counts, height=height, color=colour, hatch=hatch, label=label(system))
        axes.bar_label(bars, fontsize=7, padding=2)
    names = [f"{stage}: {kind}" if stage else kind for stage, kind in kinds]
    axes.set_yticks([row + 0.4 - height / 2 for row in range(len(kinds))], map(plain, names))
    axes.margins(x=0.08)
    axes.invert_yaxis()
    legend_below(figure, axes)
    return figure


def rejections(system: System) -> Counter[tuple[str, str]]:
    """Failed attempts of synthesis and variants that the trainer did not take, by stage and kind; of all runs."""
    found: Counter[tuple[str, str]] = Counter()
    for run in system.runs.values():
        failed = mechanism.failures(run)
        found.update({(mechanism.stage_of(kind), kind): count for kind, count in failed.items()})
        found.update({("trainer", reason): count for reason, count in mechanism.refusals(run).items()})
    return found


def latencies(system: System) -> list[mechanism.Latency]:
    """Of all runs."""
    return [each for run in system.runs.values() for each in mechanism.latencies(run)]


FIGURES: dict[str, tuple[str, Callable[[Sequence[System]], Figure | None]]] = {
    "new_variants": ("r̄ of new variants: box 25–75%, whiskers 5–95%, diamond: mean", new_variants),
    "variance": ("Reward variance by zone", variance),
    "latency": ("Injection latency", latency),
    "funnel": ("From boundary task to retired variant", funnel),
    "rejected": ("What was rejected, by stage and kind", rejected),
}


def _rows(x: str, rows: float) -> tuple[Figure, Axes]:
    """An empty plot with a height that fits so many rows."""
    figure, axes = new_axes(x, "")
    figure.set_size_inches(7.2, 1.6 + 0.42 * rows)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", alpha=0.3)
    axes.tick_params(axis="y", labelsize=8)
    return figure, axes


def _first_means(system: System) -> list[float]:
    return [mean for run in system.runs.values() for mean in tables.first_means(run)]


def _inside(system: System, means: Sequence[float]) -> str:
    band = system.config["boundary"]
    share = sum(band["alpha_low"] <= mean <= band["alpha_high"] for mean in means) / len(means)
    return f"{plain(system.name)}\n{share:.0%} of {len(means)} in the zone"


def _zone_variance(system: System, zone: str) -> float:
    rows = [row for run in system.runs.values() for row in tables.variance_by_zone(run) if row.zone == zone]
    found = [row.variance for row in rows if row.variance is not None]
    return fmean(found) if found else 0.0


def _ratio_label(system: System) -> str:
    ratios = [ratio for run in system.runs.values() if (ratio := mechanism.variance_ratio(run)) is not None]
    return f"{plain(system.name)}\n× {fmean(ratios):.2f}" if ratios else plain(system.name)
