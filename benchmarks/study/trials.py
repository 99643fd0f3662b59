"""What was tried before the study, on seeds that it does not report: `trials/NAME/`, with `settings.txt`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.study import summary, world
from benchmarks.study.summary import Summary
from rods.errors import RodsError

TRIALS = Path(__file__).with_name("trials")
SETTINGS = "settings.txt"


class TrialError(RodsError):
    """A trial that says not what it was, or one on a reported seed."""


@dataclass(frozen=True)
class Trial:
    """A run under settings that were tried.

    Attributes:
        settings: in words, where they are not the study's.
        run: what it came to.
    """

    settings: str
    run: Summary


def read(folder: Path) -> list[Trial]:
    """Every trial, by its settings' folder, arm and seed.

    Raises:
        TrialError: a folder without settings, or a run of a seed that is reported.
        SummaryError: a file that is no summary.
    """
    return [trial for own in sorted(folder.glob("*/")) for trial in _of(own)]


def _of(own: Path) -> Iterator[Trial]:
    told = own / SETTINGS
    if not told.is_file():
        raise TrialError(
            f"{told}: expected a line that says by what settings {own.name} was run, found no file"
        )
    for run in summary.read_all(own):
        if run.seed in world.REPORTED:
            raise TrialError(
                f"{own}: expected seeds that are not reported, {world.TUNING[0]} and on, found seed {run.seed}; what "
                "is tried on a reported seed is chosen by looking at the result"
            )
        yield Trial(told.read_text(encoding="utf-8").strip(), run)
