"""The report of one run: a self-contained HTML page and its figures as PNG files, in RUN/report/."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from analysis import figures, tables
from analysis.load import RunData, load
from rods.exchange.atomic import write_bytes, write_text
from rods.exchange.rundir import RunDir

_CHAINS_SHOWN = 12


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
    plots: list[Path] = []
    images: list[dict[str, str]] = []
    for name, (title, draw) in figures.FIGURES.items():
        image = _png(draw(data))
        plots.append(folder / f"{name}.png")
        write_bytes(plots[-1], image)
        images.append({"title": title, "name": name, "data": base64.b64encode(image).decode()})
    html = folder / "index.html"
    write_text(html, render(data, images))
    return ReportPaths(html, tuple(plots))


def render(data: RunData, images: list[dict[str, str]]) -> str:
    """The page as text; all that comes from the run is escaped."""
    environment = Environment(
        loader=PackageLoader("analysis"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["figure"] = _figure_text
    chains = tables.chains(data)
    return environment.get_template("report.html.j2").render(
        run=data,
        images=images,
        headline=_headline(data),
        evaluations=tables.evaluations(data),
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
        "status": "finished" if data.finished else "not finished",
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


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
