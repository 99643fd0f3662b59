"""docs/study.md and its figures, and the headline for the report of a run, out of summaries, trials and findings."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib as mpl
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from matplotlib.figure import Figure

from benchmarks.study import compare, figures, sections, summary, trials
from benchmarks.study.arms import ARMS, RODS, STATIC, TRAJECTORIES, chosen, get
from benchmarks.study.figures import Told
from benchmarks.study.summary import Identity, Summary
from benchmarks.study.trials import Trial
from rods.errors import RodsError
from rods.exchange.atomic import make_dirs, write_text

FINDINGS = Path(__file__).with_name("findings.md")
PAGE, FOLDER = "study.md", "study"
Identities = Mapping[tuple[str, int], Identity]
"""What each run would be that were made now, by arm's name and seed."""


class EmptyStudyError(RodsError):
    """No summary to make a page of, or no held-out task to score."""


def build(results: Path, today: Identities, docs: Path, headline: Path) -> list[Path]:
    """Write the page, its figures and the headline; returns what was written.

    Args:
        results: folder of the summaries.
        today: the runs that the page reports; a summary of one that was another run is left out and named.
        docs: folder of the page.
        headline: file for `analysis`.

    Raises:
        EmptyStudyError: no summary of these seeds, or none of the static pool; or variants repeat all held-out tasks.
        SummaryError: a file among the results that is no summary.
    """
    seeds = sorted({seed for _, seed in today})
    kept, left = consistent(summary.of_seeds(summary.read_all(results), seeds), today)
    told = group(kept)
    if not any(each.arm.name == STATIC for each in told):
        raise EmptyStudyError(
            f"{results}: expected at least one run of the static pool with a seed of {seeds}, and with the "
            "settings, start policy and tasks of today, found none; `python -m benchmarks.study run` makes them"
        )
    without = compare.repeated([run for each in told for run in each.list])
    if len(without) == len(kept[0].sampled):
        raise EmptyStudyError(
            f"{results}: expected held-out tasks that no variant repeats, found all {len(without)} repeated in content "
            "or solution, so that no score is left; widen the held-out tasks (benchmarks/study/world.py), or what is "
            "synthesised"
        )
    tried = trials.read(trials.TRIALS)
    drawn = draw(told, tried, docs / FOLDER, without)
    write_text(docs / PAGE, render(told, tried, seeds, left))
    write_text(headline, json.dumps(headline_of(told), separators=(",", ":")) + "\n")
    return [docs / PAGE, *drawn, headline]


def render(
    told: Sequence[Told], tried: Sequence[Trial], seeds: Sequence[int], left: Sequence[Summary]
) -> str:
    """The page.

    Args:
        told: the arms that have runs, the static pool among them.
        tried: what was tried beside the study.
        seeds: those that the study is to have.
        left: runs that cannot be compared with the others.
    """
    runs = [run for each in told if not each.arm.same_as for run in each.list]
    without = compare.repeated(runs)
    systems, ablations = split(told)
    static, rods = next(each for each in told if each.arm.name == STATIC), find(told, RODS)
    spent = compare.budget([run for each in systems for run in each.list])
    start = {
        mode: fmean(compare.scores(run, f"start_{mode}", without).mean() for run in runs)
        for mode in compare.MODES
    }
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("study.md.j2").render(
        gaps=gaps(told, seeds),
        left=[f"{each.arm} seed {each.seed}" for each in left],
        findings=FINDINGS.read_text(encoding="utf-8").strip(),
        trajectories=f"{TRAJECTORIES:,}",
        start={mode: f"{mean:.3f}" for mode, mean in start.items()},
        final=sections.final(systems, without),
        rises=sections.differences(sections.rises(systems, without)),
        against_static=sections.differences(sections.against(systems, static, without)),
        way=sections.way(systems, static),
        spent=f"{spent:.0f}",
        compute=sections.compute(systems, static, spent),
        ablations=ablations and rods and sections.differences(sections.against(ablations, rods, without)),
        twins=[(each.arm.title, each.arm.same_as) for each in ablations if each.arm.same_as],
        trained=sections.trained(systems, without),
        alike=alike(ablations, rods) if rods else [],
        mechanism=sections.mechanism(systems),
        pictures=[(name, title) for name, (title, _) in figures.MECHANISM.items()],
        kinds=sections.kinds(systems),
        settings={each.name: each.settings for each in tried},
        trials=sections.trials(tried),
        tried=sections.tried(tried),
        long=list(pairs(tried)),
        made=made(runs, len(without)),
    )


def gaps(told: Sequence[Told], seeds: Sequence[int]) -> list[str]:
    """Arms with the seeds that they have no run of."""
    there = {each.arm.name: each.runs for each in told}
    found = {arm: [seed for seed in seeds if seed not in there.get(arm.name, {})] for arm in chosen(())}
    return [f"{arm.title} ({_seeds(lacks)})" for arm, lacks in found.items() if lacks]


def alike(ablations: Sequence[Told], rods: Told) -> list[str]:
    """Ablations of which some runs did, event for event, what those of RODS did, with the seeds of these."""
    found = {
        each.arm: [
            seed
            for seed, run in each.runs.items()
            if seed in rods.runs and run.digest == rods.runs[seed].digest
        ]
        for each in ablations
    }
    return [f"*{arm.title}* ({_seeds(seeds)})" for arm, seeds in found.items() if seeds]


def made(runs: Sequence[Summary], repeated: int) -> dict[str, str]:
    """What the runs took, and by what they were made."""
    cpu = fmean(run.cost.training + run.cost.synthesis + run.cost.evaluation for run in runs)
    return {
        "runs": str(len(runs)),
        "hours": f"{sum(run.cost.wall for run in runs) / 3600:.1f}",
        "cpu": f"{cpu:.0f}",
        "load": f"{min(run.cost.load for run in runs):.1f} to {max(run.cost.load for run in runs):.1f}",
        "again": str(sum(run.attempts > 1 for run in runs)),
        "machines": "; ".join(sorted({run.machine for run in runs})),
        "commits": ", ".join(sorted({run.commit for run in runs})),
        "tasks": str(len(runs[0].sampled)),
        "variants": f"{sum(run.overlap.variants for run in runs):,}",
        "repeated": str(repeated),
    }


def consistent(summaries: Sequence[Summary], today: Identities) -> tuple[list[Summary], list[Summary]]:
    """Those of runs that would be the same today, which can be compared, and the others."""
    kept = [each for each in summaries if each.identity == today.get((each.arm, each.seed))]
    return kept, [each for each in summaries if each not in kept]


def group(summaries: Sequence[Summary]) -> list[Told]:
    """By arm, in the order of `ARMS`; an arm that is another's twin has that one's runs."""
    by_arm: dict[str, dict[int, Summary]] = defaultdict(dict)
    for each in summaries:
        by_arm[each.arm][each.seed] = each
    return [Told(arm, runs) for arm in ARMS if (runs := by_arm.get(arm.same_as or arm.name))]


def draw(
    told: Sequence[Told], tried: Sequence[Trial], folder: Path, without: Sequence[int] = ()
) -> list[Path]:
    """Every figure as SVG; equal summaries give equal bytes. `without`: places of tasks that leave final scores."""
    make_dirs(folder)
    systems, ablations = split(told)
    drawn: dict[str, Figure] = {
        "curves": figures.curves(systems),
        "equal_compute": figures.equal_compute(systems),
        "trained": figures.trained(systems),
        **{name: make(systems) for name, (_, make) in figures.MECHANISM.items()},
        **{f"trial_{name}": figures.curves(both) for name, both in pairs(tried).items()},
    }
    for name, arms, base in (("against_static", systems, STATIC), ("ablations", ablations, RODS)):
        reference = find(told, base)
        if reference is not None and (rows := sections.against(arms, reference, without)):
            drawn[name] = figures.differences(rows, reference.arm.title)
    paths = []
    for name, figure in drawn.items():
        paths.append(folder / f"{name}.svg")
        with mpl.rc_context({"svg.hashsalt": "study", "svg.fonttype": "none"}):
            figure.savefig(paths[-1], metadata={"Date": None})
    return paths


def pairs(tried: Sequence[Trial]) -> dict[str, list[Told]]:
    """The static pool and RODS in each trial that has enough seeds of both for an interval, by its name."""
    runs: dict[str, dict[str, dict[int, Summary]]] = defaultdict(lambda: defaultdict(dict))
    for each in tried:
        runs[each.name][each.run.arm][each.run.seed] = each.run
    found = {
        name: [Told(get(arm), arms[arm]) for arm in (STATIC, RODS) if len(arms[arm]) >= compare.FEWEST]
        for name, arms in runs.items()
    }
    return {name: both for name, both in found.items() if len(both) == 2}


def find(told: Sequence[Told], name: str) -> Told | None:
    """The arm of that name, if it has runs."""
    return next((each for each in told if each.arm.name == name), None)


def split(told: Sequence[Told]) -> tuple[list[Told], list[Told]]:
    """Systems, and ablations of RODS."""
    return [each for each in told if not each.arm.ablation], [each for each in told if each.arm.ablation]


def headline_of(told: Sequence[Told]) -> dict[str, Any]:
    """The systems' mean curves, for the report of a run to lay its own beside."""
    systems, _ = split(told)
    first = systems[0].list[0]
    return {
        "page": f"docs/{PAGE}",
        "commit": first.commit,
        "tasks": len(first.sampled),
        "arms": [
            {
                "arm": each.arm.name,
                "title": each.arm.title,
                "seeds": len(each.runs),
                "points": _points(each),
            }
            for each in systems
        ],
    }


def _seeds(seeds: Sequence[int]) -> str:
    """In words."""
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, sorted(seeds)))}"


def _points(each: Told) -> list[dict[str, Any]]:
    curves = {mode: compare.mean_curve(each.list, mode) for mode in compare.MODES}
    return [
        {
            "trajectories": int(place[0]),
            **{mode: _triple(*curves[mode][number][1:]) for mode in compare.MODES},
        }
        for number, place in enumerate(curves["sampled"])
    ]


def _triple(mean: float, half: float | None) -> list[float | None]:
    if half is None:
        return [round(mean, 4), None, None]
    return [round(mean, 4), round(mean - half, 4), round(mean + half, 4)]
