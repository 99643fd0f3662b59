"""The tables of docs/study.md: arms in, Markdown out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from benchmarks.study import compare, figures
from benchmarks.study.arms import RODS, STATIC, get
from benchmarks.study.compare import MODES, Difference
from benchmarks.study.figures import MODE_TITLES, Told
from benchmarks.study.summary import STAGES, ZONES, Stretch, Summary
from benchmarks.study.trials import Trial
from rods.evaluation.statistics import Interval

Rows = list[tuple[str, Mapping[str, Difference]]]

_SCORES = ("sampled", "greedy", "sampled_accuracy", "greedy_accuracy")
_SCORE_TITLES = ("R_P, T=1", "R_P, greedy", "accuracy, T=1", "accuracy, greedy")
_NONE = "–"


def against(told: Sequence[Told], base: Told, without: Sequence[int] = ()) -> Rows:
    """Title and final differences from `base` by score, of every other arm that shares a seed with it.

    Args:
        without: places of held-out tasks that are left out.
    """
    rows: Rows = []
    for each in told:
        found = {score: compare.final(each.runs, base.runs, score, without) for score in _SCORES}
        own = {score: difference for score, difference in found.items() if difference is not None}
        if each.arm != base.arm and own:
            rows.append((each.arm.title, own))
    return rows


def rises(told: Sequence[Told], without: Sequence[int] = ()) -> Rows:
    """Title and final differences from the run's own start by score, of every arm; `without` as in `against`."""
    return [
        (each.arm.title, {score: compare.risen(each.list, score, without) for score in _SCORES})
        for each in told
    ]


def differences(rows: Rows) -> str:
    """Of `against` or `rises`."""
    lines = [
        [title, str(own["sampled"].seeds), *(_difference(own[score]) for score in _SCORES)]
        for title, own in rows
    ]
    return _table(["", "seeds", *_SCORE_TITLES], lines)


def final(told: Sequence[Told], without: Sequence[int]) -> str:
    """Scores of the last evaluation, and the share of groups without variance."""
    rows = [
        [
            each.arm.title,
            str(len(each.runs)),
            *(_over_seeds(each, score, without) for score in _SCORES),
            f"{fmean(run.zero_variance for run in each.list):.2f}",
        ]
        for each in told
    ]
    return _table(["", "seeds", *_SCORE_TITLES, "groups without variance"], rows)


def way(told: Sequence[Told], base: Told) -> str:
    """Area under the curve, and rollouts to the best point of `base`."""
    goals = {mode: compare.best(base.runs, mode) for mode in MODES}
    rows = []
    for each in told:
        row = [each.arm.title, str(len(each.runs))]
        for mode in MODES:
            ours, theirs = (_areas(side.runs, mode) for side in (each, base))
            row += [f"{fmean(ours.values()):.3f}", _less(each, base, ours, theirs)]
            row.append(_reached(each, mode, goals[mode]))
        rows.append(row)
    head = ["", "seeds"]
    for mode in MODES:
        head += [f"area, {MODE_TITLES[mode]}", "less static", f"rollouts to {goals[mode]:.3f}"]
    return _table(head, rows)


def compute(told: Sequence[Told], base: Told, spent: float) -> str:
    """What the runs cost, and where their curves were after `spent` CPU seconds."""
    rows = []
    for each in told:
        row = [each.arm.title, str(len(each.runs))]
        row.append(f"{fmean(run.curve[-1].step for run in each.list):.0f}")
        row.append(f"{fmean(run.cost.training for run in each.list):.0f}")
        row.append(f"{fmean(run.cost.synthesis for run in each.list):.0f}")
        row.append(f"{fmean(run.curve[-1].tokens for run in each.list):,.0f}")
        for mode in MODES:
            ours, theirs = (_heights(side, mode, spent) for side in (each, base))
            row += [f"{fmean(ours.values()):.3f}", _less(each, base, ours, theirs)]
        rows.append(row)
    head = ["", "seeds", "training steps", "CPU s, training", "CPU s, synthesis", "tokens"]
    for mode in MODES:
        head += [f"R_P, {MODE_TITLES[mode]}", "less static"]
    return _table(head, rows)


def trained(told: Sequence[Told], without: Sequence[int]) -> str:
    """What was trained on between the first two evaluations and between the last two: see `figures.stretches`."""
    rows = []
    for each in told:
        ends = [(found[0], found[-1]) for found in map(figures.stretches, each.list)]
        own = [end.reward - begin.reward for begin, end in ends]
        alone = [
            end.seed_reward - begin.seed_reward
            for begin, end in ends
            if begin.seed_reward is not None and end.seed_reward is not None
        ]
        held = [compare.risen(each.list, "sampled", without).mean]
        row = [
            each.arm.title,
            str(len(each.runs)),
            *(_both(ends, part) for part in ("reward", "zero_variance")),
        ]
        rise = [f"{fmean(found):+.3f}" if found else _NONE for found in (own, alone, held)]
        rows.append([*row, *rise, _both(ends, "fresh")])
    head = [
        "",
        "seeds",
        "own reward",
        "groups without variance",
        "own reward rises by",
        "that on the seed tasks alone",
        "held-out R_P, T=1, rises by",
    ]
    return _table([*head, "groups of a task not seen before"], rows)


def mechanism(told: Sequence[Told]) -> str:
    """Variance by zone, where new variants land, how long they take, and the funnel."""
    rows = [
        [
            each.arm.title,
            " / ".join(f"{figures.zone_variance(each.list, zone):.3f}" for zone in ZONES),
            _ratio(each.list),
            _inside(each.list),
            _latency(each.list),
            f"{fmean(run.mechanism.pool[-1].variants for run in each.list):.0f}",
            *(f"{fmean(run.mechanism.funnel[stage] for run in each.list):.0f}" for stage in STAGES),
        ]
        for each in told
    ]
    head = ["", "variance hard / boundary / mastered", "boundary over others"]
    head += ["new variants at the boundary", "steps to first use", "variants at the end", *STAGES]
    return _table(head, rows)


def kinds(told: Sequence[Told]) -> str:
    """Held-out reward by kind of task before and after, of the static pool and of RODS."""
    shown = [each for each in told if each.arm.name in (STATIC, RODS)]
    head = ["kind", "start, T=1", "start, greedy"]
    head += [f"{each.arm.title}, {mode}" for each in shown for mode in ("T=1", "greedy")]
    rows = []
    for kind in sorted({kind for each in shown for run in each.list for kind in run.by_kind}):
        everyone = [run.by_kind[kind] for each in shown for run in each.list]
        values = [fmean(own[place] for own in everyone) for place in (0, 1)]
        values += [fmean(run.by_kind[kind][place] for run in each.list) for each in shown for place in (2, 3)]
        rows.append([kind, *(f"{value:.2f}" for value in values)])
    return _table(head, rows)


def trials(told: Sequence[Trial]) -> str:
    """What was tried on other seeds: held-out reward before, after and on the way, own reward at first and last."""
    rows = []
    for each in told:
        start, end = each.run.curve[0], each.run.curve[-1]
        ways = [f"{getattr(start, mode):.3f} → {getattr(end, mode):.3f}" for mode in MODES]
        ways += [f"{compare.area(each.run, mode):.3f}" for mode in MODES]
        sizes = [f"{end.trajectories:,}", str(end.step), f"{end.cpu_seconds:,.0f}"]
        row = [each.name, get(each.run.arm).title, str(each.run.seed), *sizes, *ways]
        stretches = figures.stretches(each.run)
        rows.append([*row, _both([(stretches[0], stretches[-1])], "reward"), f"{each.run.zero_variance:.2f}"])
    head = ["", "arm", "seed", "rollouts", "training steps", "CPU s"]
    head += [f"{what}, {MODE_TITLES[mode]}" for what in ("R_P", "area") for mode in MODES]
    return _table([*head, "own reward", "groups without variance"], rows)


def tried(told: Sequence[Trial]) -> str:
    """RODS less the static pool in each trial of both, on the seeds of both; then over all trials by equal settings."""
    by_name = {each.name: [other.run for other in told if other.name == each.name] for each in told}
    by_settings = {
        " and ".join(dict.fromkeys(other.name for other in told if other.settings == each.settings)): [
            other.run for other in told if other.settings == each.settings
        ]
        for each in told
    }
    rows = []
    for names, runs in (by_name | by_settings).items():
        ours, theirs = ({run.seed: run for run in runs if run.arm == arm} for arm in (RODS, STATIC))
        without = compare.repeated(runs)
        ends = [compare.final(ours, theirs, mode, without) for mode in MODES]
        areas = [compare.paired(*(_areas(side, mode) for side in (ours, theirs))) for mode in MODES]
        spent = [compare.equally_spent(ours, theirs, mode) for mode in MODES]
        found = [each for each in (*ends, *areas, *spent) if each is not None]
        if found:
            rows.append([names, str(found[0].seeds), *map(_difference, found)])
    head = [
        f"{what}, {MODE_TITLES[mode]}" for what in ("R_P", "area", "R_P at equal CPU time") for mode in MODES
    ]
    return _table(["RODS less the static pool", "seeds", *head], rows)


def _areas(runs: Mapping[int, Summary], mode: str) -> dict[int, float]:
    return {seed: compare.area(run, mode) for seed, run in runs.items()}


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _over_seeds(each: Told, score: str, without: Sequence[int]) -> str:
    values = [float(compare.scores(run, score, without).mean()) for run in each.list]
    spread = f" ({min(values):.3f} to {max(values):.3f})" if len(values) > 1 else ""
    return f"{fmean(values):.3f}{spread}"


def _less(each: Told, base: Told, ours: Mapping[int, float], theirs: Mapping[int, float]) -> str:
    found = None if each.arm == base.arm else compare.paired(ours, theirs)
    return _NONE if found is None else _difference(found)


def _difference(found: Difference) -> str:
    text = f"{found.mean:+.3f}{_interval(found.interval)}"
    return f"**{text}**" if found.clear else text


def _interval(interval: Interval | None) -> str:
    return "" if interval is None else f" [{interval.low:+.3f}, {interval.high:+.3f}]"


def _reached(each: Told, mode: str, goal: float) -> str:
    found = [compare.reached(run, mode, goal) for run in each.list]
    there = [value for value in found if value is not None]
    return f"{fmean(there):,.0f} ({len(there)} of {len(found)})" if there else f"never (0 of {len(found)})"


def _heights(each: Told, mode: str, spent: float) -> dict[int, float]:
    return {seed: float(compare.at(run, "cpu_seconds", mode, [spent])[0]) for seed, run in each.runs.items()}


def _both(ends: Sequence[tuple[Stretch, Stretch]], part: str) -> str:
    """Means over seeds at the beginning and at the end."""
    begin, end = (fmean(getattr(pair[place], part) for pair in ends) for place in (0, 1))
    return f"{begin:.2f} → {end:.2f}"


def _ratio(runs: Sequence[Summary]) -> str:
    """Mean variance of boundary groups over that of all others."""
    others = [
        zone
        for run in runs
        for name, zone in run.mechanism.zones.items()
        if name != "boundary" and zone.groups
    ]
    groups = sum(zone.groups for zone in others)
    outside = sum(zone.groups * zone.variance for zone in others) / groups if groups else 0.0
    return f"{figures.zone_variance(runs, 'boundary') / outside:.1f}" if outside else _NONE


def _inside(runs: Sequence[Summary]) -> str:
    means = [mean for run in runs for mean in run.mechanism.first_means]
    low, high = runs[0].mechanism.band
    return f"{fmean(low <= mean <= high for mean in means):.2f} of {len(means)}" if means else _NONE


def _latency(runs: Sequence[Summary]) -> str:
    parts = [figures.mean_latency(runs, part) for part in ("synthesis", "staging", "waiting")]
    return " + ".join(f"{part:.1f}" for part in parts) if any(parts) else _NONE
