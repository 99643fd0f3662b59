"""The paper's tables, from `paper.yaml`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml
from pydantic import TypeAdapter, ValidationError

from rods.errors import RodsError

_FILE = Path(__file__).with_name("paper.yaml")


class PaperError(RodsError):
    """A file that does not hold the paper's tables."""


@dataclass(frozen=True)
class Row:
    """One system of the paper, accuracies in per cent.

    Attributes:
        experiment, ablation: names under `conf/` that run it; "" for none.
        overall, base, miss_func, miss_param, long_context: None where the paper gives no figure.
    """

    model: str
    system: str
    overall: float
    experiment: str = ""
    ablation: str = ""
    base: float | None = None
    miss_func: float | None = None
    miss_param: float | None = None
    long_context: float | None = None

    def get(self, part: str) -> float | None:
        """The figure called `part`: overall or a task type; None where there is none."""
        found = getattr(self, part) if part in _PARTS else None
        return None if found is None else float(found)


_PARTS = ("overall", "base", "miss_func", "miss_param", "long_context")


@dataclass(frozen=True)
class Paper:
    """The tables and where they are from."""

    source: str
    rows: tuple[Row, ...]

    def find(self, experiment: str, ablation: str = "") -> Row | None:
        """The row that an experiment, with an ablation, repeats; None where the paper has no such system."""
        own = (row for row in self.rows if row.experiment)
        return next((row for row in own if (row.experiment, row.ablation) == (experiment, ablation)), None)


@cache
def load(path: Path = _FILE) -> Paper:
    """Read the tables.

    Raises:
        PaperError: the file holds something else.
    """
    try:
        return TypeAdapter(Paper).validate_python(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (ValidationError, yaml.YAMLError) as error:
        raise PaperError(f"{path}: expected the paper's tables (source, rows), found: {error}") from error
