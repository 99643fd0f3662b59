"""The paper's tables, from `paper.yaml`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

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
class Elsewhere:
    """One system of the paper's out-of-distribution table, scores in per cent.

    Attributes:
        model, system, experiment, ablation: as in `Row`.
        bfcl_v4: web search and memory.
        tau2: retail, airline, telecom.
        acebench_agent: its agent part.
    """

    model: str
    system: str
    bfcl_v4: float
    tau2: float
    acebench_agent: float
    experiment: str = ""
    ablation: str = ""


UNTRAINED = "untrained"


@dataclass(frozen=True)
class Paper:
    """The tables and where they are from."""

    source: str
    rows: tuple[Row, ...]
    out_of_distribution: tuple[Elsewhere, ...]

    def find(self, experiment: str, ablation: str = "") -> Row | None:
        """The row that an experiment, with an ablation, repeats; None where the paper has no such system."""
        return _repeated(self.rows, experiment, ablation)

    def find_elsewhere(self, experiment: str, ablation: str = "") -> Elsewhere | None:
        """The same in the out-of-distribution table."""
        return _repeated(self.out_of_distribution, experiment, ablation)

    def untrained(self, model: str) -> Row | None:
        """The row of a model before training, by the model's name without its owner and its release."""
        return _before(self.rows, model)

    def untrained_elsewhere(self, model: str) -> Elsewhere | None:
        """The same in the out-of-distribution table."""
        return _before(self.out_of_distribution, model)


_Found = TypeVar("_Found", Row, Elsewhere)


def _before(rows: tuple[_Found, ...], model: str) -> _Found | None:
    own = (row for row in rows if row.system == UNTRAINED)
    name = model.rpartition("/")[2]
    # Qwen3-4B-Instruct-2507 is a release of Qwen3-4B-Instruct.
    return next((row for row in own if name == row.model or name.startswith(f"{row.model}-")), None)


def _repeated(rows: tuple[_Found, ...], experiment: str, ablation: str) -> _Found | None:
    own = (row for row in rows if row.experiment)
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
        raise PaperError(
            f"{path}: expected the paper's tables (source, rows, out_of_distribution), found: {error}"
        ) from error
