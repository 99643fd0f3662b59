"""The doctor's findings as a table for a person, or as JSON for a script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rods.doctor.finding import Finding, Level, is_fit

_STYLES = {Level.ok: "green", Level.note: "cyan", Level.warning: "yellow", Level.unfit: "bold red"}


def table(title: str, findings: Sequence[Finding], console: Console) -> None:
    """Print one table."""
    shown = Table(title=title, title_justify="left", expand=False)
    for column in ("", "looked at", "found", "meaning"):
        shown.add_column(column, overflow="fold")
    for finding in findings:
        style = _STYLES[finding.level]
        said = (escape(text) for text in (finding.probe, finding.measured, finding.meaning))
        shown.add_row(f"[{style}]{finding.level}[/]", *said)
    console.print(shown)


def to_json(path: str, findings: Sequence[Finding], installed: Sequence[Finding]) -> dict[str, Any]:
    """Everything, as plain data."""
    return {
        "directory": path,
        "fit": is_fit([*findings, *installed]),
        "findings": [finding.to_json() for finding in findings],
        "stack": [finding.to_json() for finding in installed],
    }
