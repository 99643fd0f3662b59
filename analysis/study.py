"""The report over several runs: a self-contained page, and its figures as PNG and SVG."""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib import rc_context
from matplotlib.figure import Figure

from analysis import (
    comparison_figures,
    comparisons,
    elsewhere,
    mechanism,
    mechanism_figures,
    mixtures,
    paper,
    study_figures,
    tables,
    trajectories,
)
from analysis.comparisons import Scored
from analysis.load import RunData, load
from analysis.seeds import MIN_SEEDS
from analysis.systems import System, group
from rods.exchange.atomic import make_dirs, write_bytes, write_text

Record = Mapping[str, Any]
_MOST_NAMED = 3  # systems, in a warning: the table below it tells the seeds of all


@dataclass(frozen=True)
class StudyPaths:
    """Where the study is, and what a reader must know before believing it."""

    html: Path
    trajectories: Path
    plots: tuple[Path, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Study:
    """Everything that the page shows is computed from this.

    Attributes:
        title: of the page.
        systems: those in question, then the references.
        references: those that the others are compared with.
        costs: accounts of the runs as `rods cost --json` prints them.
        benchmarks: what `rods benchmark` found of their policies, and of models beside them.
    """

    title: str
    systems: tuple[Scored, ...]
    references: tuple[Scored, ...]
    costs: tuple[Record, ...] = ()
    benchmarks: tuple[elsewhere.Result, ...] = ()

    @property
    def plain(self) -> list[System]:
        """The systems without their scores."""
        return [scored.system for scored in self.systems]


def build(
    folder: Path,
    runs: Sequence[Path],
    against: Sequence[Path] = (),
    costs: Sequence[Record] = (),
    benchmarks: Sequence[Path] = (),
) -> StudyPaths:
    """Write the study of `runs` into `folder`, compared with `against`.

    Args:
        costs: as in `Study`.
        benchmarks: results of `rods benchmark` that do not lie in a run's `evaluations/`, or folders of them.

    Raises:
        NothingToReportError: a run that has not journaled anything yet.
        MixedRunsError: a run named twice, or two runs of a system with one seed.
        ScoreError, BenchmarkFileError: a result that cannot be read.
        RodsError: not a run directory, or a damaged journal.
    """
    data, references = [load(path) for path in runs], [load(path) for path in against]
    study = gather(
        folder.absolute().name if len(data) > 1 else data[0].name, data, references, costs, benchmarks
    )
    make_dirs(folder)
    plots: list[Path] = []
    images: list[dict[str, str]] = []
    for name, (title, figure) in _figures(study).items():
        png = _drawn(figure, "png")
        for suffix, content in (("png", png), ("svg", _drawn(figure, "svg"))):
            plots.append(folder / f"study_{name}.{suffix}")
            write_bytes(plots[-1], content)
        images.append({"title": title, "data": base64.b64encode(png).decode()})
    page, browser = folder / "study.html", folder / "trajectories.html"
    write_text(page, render(study, images))
    write_text(browser, trajectories.render(study.title, [*data, *references]))
    return StudyPaths(page, browser, tuple(plots), tuple(warnings(study)))


def gather(
    title: str,
    runs: Sequence[RunData],
    against: Sequence[RunData],
    costs: Sequence[Record] = (),
    benchmarks: Sequence[Path] = (),
) -> Study:
    """Runs as systems with their scores. Arguments and errors as in `build`."""
    systems = group([*runs, *against])
    names = {run.path for run in against}
    scored = comparisons.score(systems)
    references = [each for each in scored if any(run.path in names for run in each.system.runs.values())]
    results = elsewhere.read(benchmarks, systems)
    return Study(title, tuple(scored), tuple(references), tuple(costs), tuple(results))


def render(study: Study, images: Sequence[Mapping[str, str]]) -> str:
    """The page as text; all that comes from the runs is escaped."""
    environment = Environment(
        loader=PackageLoader("analysis"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    tables_of_the_paper = paper.load()
    measures = list(dict.fromkeys(measure for each in study.systems for measure in each.scores))
    ours = [each for each in study.systems if each not in study.references]
    return environment.get_template("study.html.j2").render(
        title=study.title,
        trajectories=True,
        warnings=warnings(study),
        measures=measures,
        systems=[
            {
                "system": each.system,
                "summaries": comparisons.summaries(each),
                "tasks": {measure: len(each.tasks(measure)) for measure in each.scores},
            }
            for each in study.systems
        ],
        main=comparisons.beside_paper(study.systems, tables_of_the_paper),
        elsewhere=elsewhere.rows(study.benchmarks, study.plain, tables_of_the_paper),
        source=tables_of_the_paper.source,
        against=comparisons.against(ours, study.references, tables_of_the_paper),
        ablations=comparisons.ablations(study.systems, tables_of_the_paper),
        images=images,
        ratio=mechanism_figures.PAPER_RATIO,
        mechanism=[_mechanism(system) for system in study.plain],
        rejected=[row for system in study.plain for row in _rejected(system)],
        costs=study.costs,
        runs=[
            {"run": run, "system": system.name, "steps": len({each.step for each in run.groups})}
            for system in study.plain
            for run in system.runs.values()
        ],
    )


def warnings(study: Study) -> list[str]:
    """What a reader must know before believing the tables."""
    few = [system.name for system in study.plain if len(system.runs) < MIN_SEEDS]
    unfinished = [
        f"{run.name} (failed)" if run.failure else run.name
        for system in study.plain
        for run in system.runs.values()
        if not run.finished
    ]
    told = []
    if few:
        which = "; ".join(few) if len(few) <= _MOST_NAMED else f"{len(few)} of {len(study.systems)} systems"
        told.append(
            f"Fewer than {MIN_SEEDS} seeds: {which}. Differences between seeds are as large as those between "
            "systems; conclude nothing from these."
        )
    if unfinished:
        told.append(
            f"Not finished: {', '.join(unfinished)}. Their last evaluation is not that of a trained policy."
        )
    return [*told, *mixtures.told(study.systems)]


def _figures(study: Study) -> dict[str, tuple[str, Figure]]:
    """Those that there is something to draw for."""
    drawn = {**study_figures.FIGURES, **mechanism_figures.FIGURES}
    made = {name: (title, draw(study.plain)) for name, (title, draw) in drawn.items()}
    rows = comparisons.ablations(study.systems, paper.load())
    made["ablations"] = ("Ablations less the whole system", comparison_figures.ablations(rows))
    curves = comparisons.capacities(study.systems)
    made["capacity"] = ("Score by P_max", comparison_figures.capacity(curves))
    return {name: (title, figure) for name, (title, figure) in made.items() if figure is not None}


def _mechanism(system: System) -> dict[str, Any]:
    runs = list(system.runs.values())
    band = system.config["boundary"]
    ratios = [ratio for run in runs if (ratio := mechanism.variance_ratio(run)) is not None]
    means = [mean for run in runs for mean in tables.first_means(run)]
    steps = mechanism_figures.latencies(system)
    retired: Counter[str] = Counter()
    for run in runs:
        retired.update(event["reason"] for event in run.named("task_retired"))
    return {
        "name": system.name,
        "ratio": fmean(ratios) if ratios else None,
        "inside": sum(band["alpha_low"] <= mean <= band["alpha_high"] for mean in means),
        "variants": len(means),
        "mean": fmean(means) if means else None,
        "latency": [
            median(getattr(each, part) for each in steps) if steps else None
            for part in ("synthesis", "staging", "waiting", "total")
        ],
        "retired": dict(retired.most_common()),
    }


def _rejected(system: System) -> list[dict[str, Any]]:
    return [
        {"system": system.name, "stage": stage, "kind": kind, "count": count}
        for (stage, kind), count in mechanism_figures.rejections(system).most_common()
    ]


def _drawn(figure: Figure, form: str) -> bytes:
    buffer = io.BytesIO()
    # Without a date and with fixed ids, the same runs give the same file.
    with rc_context({"svg.hashsalt": "rods"}):
        figure.savefig(buffer, format=form, metadata={"Date": None} if form == "svg" else None)
    return buffer.getvalue()
