"""The report of one run: a self-contained HTML page and its figures as PNG files, in RUN/report/."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from matplotlib.figure import Figure

from analysis import figures, headline, links, tables
from analysis.links import Link
from analysis.load import RunData, load
from analysis.study_figures import MODES
from rods.exchange.atomic import write_bytes, write_text
from rods.exchange.rundir import RunDir

_CHAINS_SHOWN = 12
_PAGE = "index.html"


@dataclass(frozen=True)
class ReportPaths:
    """Where the report is."""

    html: Path
    plots: tuple[Path, ...]


def build(run_dir: Path) -> ReportPaths:
    """Write the report of a finished or running experiment.

    Raises:
        NothingToReportError: the run has not journaled anything yet.
        RodsError: not a run directory, or a damaged journal.
    """
    data = load(run_dir)
    folder = RunDir.open(run_dir).report
    plots = []
    for name, (_, draw) in figures.FIGURES.items():
        if (figure := draw(data)) is not None:
            plots.append(folder / f"{name}.png")
            write_bytes(plots[-1], _png(figure))
    study = headline.load()
    if study is not None and data.groups and headline.comparable(data.config):
        for mode in MODES:
            plots.append(_beside(folder, mode))
            write_bytes(plots[-1], _png(headline.figure(study, data, mode)))
    return ReportPaths(_write(data, folder), tuple(plots))


def link(run_dir: Path, page: Path) -> None:
    """Have a run's report, if it has one, lead to a study page that holds the run.

    Raises:
        RodsError: as `build`.
        LinksError: what was noted of other pages is damaged.
    """
    folder = RunDir.open(run_dir).report
    links.note(folder, page.absolute().parent.name, page)
    if (folder / _PAGE).is_file():
        _write(load(run_dir), folder)


def _write(data: RunData, folder: Path) -> Path:
    """The page, of the figures that lie in `folder`."""
    images = [
        {"title": title, "name": name, "data": _encoded(file)}
        for name, (title, _) in figures.FIGURES.items()
        for file in [folder / f"{name}.png"]
        if file.is_file()
    ]
    beside = [_encoded(file) for mode in MODES for file in [_beside(folder, mode)] if file.is_file()]
    write_text(folder / _PAGE, render(data, images, links.found(folder), beside))
    return folder / _PAGE


def render(
    data: RunData,
    images: Sequence[Mapping[str, str]],
    pages: Sequence[Link] = (),
    beside: Sequence[str] = (),
) -> str:
    """The page as text; all that comes from the run is escaped.

    Args:
        images: title and base64 of the run's figures.
        pages: others that hold the run.
        beside: base64 of the figures with the study's curves.
    """
    environment = Environment(
        loader=PackageLoader("analysis"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["figure"] = _figure_text
    # HTML in the text stays text, and a link runs nothing.
    environment.filters["markdown"] = MarkdownIt("commonmark", {"html": False}).enable("table").render
    chains = tables.chains(data)
    return environment.get_template("report.html.j2").render(
        run=data,
        images=images,
        pages=pages,
        browser=any(page.href == links.BROWSER for page in pages),
        beside=beside,
        study=headline.load(),
        headline=_headline(data),
        evaluations=[
            *tables.evaluations(data),
            *tables.evaluations(data, tables.VALIDATION),
        ],
        kinds=_kinds(data),
        funnel=tables.funnel(data),
        pool=tables.pool_by_epoch(data),
        zones=tables.zones_by_epoch(data),
        variance=tables.variance_by_zone(data),
        first_means=tables.first_means(data),
        band=data.config["boundary"],
        chains=chains[:_CHAINS_SHOWN],
        chain_count=len(chains),
        settings=_settings(data.config),
    )


def _headline(data: RunData) -> dict[str, Any]:
    steps = sorted({group.step for group in data.groups})
    return {
        "status": "finished" if data.finished else "failed" if data.failure else "not finished",
        "steps": len(steps),
        "epochs": len(data.named("epoch_started")),
        "rollouts": sum(len(group.rewards) for group in data.groups),
        "backend": data.config["synthesis"]["backend"],
        "engine": next(
            (record["engine"] for record in data.metrics if "engine" in record),
            data.config["rollout"]["engine"],
        ),
        "seconds": sum(record.get("seconds", 0.0) for record in data.metrics),
    }


def _kinds(data: RunData) -> list[dict[str, Any]]:
    """Held-out reward by kind, first and last evaluation, sampled and greedy."""
    points = tables.evaluations(data)
    ends = {mode: [point for point in points if point.mode == mode] for mode in ("sampled", "greedy")}
    if not all(ends.values()):
        return []
    return [
        {
            "kind": kind,
            **{mode: (found[0].by_kind[kind], found[-1].by_kind[kind]) for mode, found in ends.items()},
        }
        for kind in ends["sampled"][0].by_kind
    ]


def _settings(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The frozen configuration as flat key and value pairs."""
    rows: list[tuple[str, str]] = []
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            rows += [(f"{key}.{name}", text) for name, text in _settings(value)]
        else:
            rows.append((key, str(value)))
    return rows


def _figure_text(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _beside(folder: Path, mode: str) -> Path:
    return folder / f"headline_{mode}.png"


def _encoded(image: Path) -> str:
    return base64.b64encode(image.read_bytes()).decode()


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
