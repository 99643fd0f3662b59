"""The folder of configuration files that launch.py composes, and what it offers."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "conf"


def choices(group: str) -> tuple[str, ...]:
    """The files that `group=…` may name, sorted."""
    return tuple(sorted(path.stem for path in (FOLDER / group).glob("*.yaml")))
