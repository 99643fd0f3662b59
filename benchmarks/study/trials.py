"""What is tried, on seeds that the study does not report: `trials/NAME/`, with `settings.txt`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.study import summary, world
from benchmarks.study.arms import Arm
from benchmarks.study.summary import Summary
from rods.errors import RodsError
from rods.exchange.atomic import make_dirs, write_text

TRIALS = Path(__file__).with_name("trials")
SETTINGS = "settings.txt"


class TrialError(RodsError):
    """A trial that says not what it was, or one on a seed that is not for trying."""


@dataclass(frozen=True)
class Trial:
    """A run under settings that were tried.

    Attributes:
        name: of its folder.
        settings: overrides of launch.py, or in words.
        run: what it came to.
    """

    name: str
    settings: str
    run: Summary


def read(folder: Path) -> list[Trial]:
    """Every trial, by its settings' folder, arm and seed.

    Raises:
        TrialError: a folder without settings, or a run of a seed that is not for trying.
        SummaryError: a file that is no summary.
    """
    return [trial for own in sorted(folder.glob("*/")) for trial in _of(own)]


def begin(own: Path, settings: str, seeds: Sequence[int]) -> None:
    """Write down by what settings the runs of the folder `own` are made.

    Raises:
        TrialError: runs stand there that were made by others, or a seed is not for trying.
    """
    there = summary.read_all(own)
    _check(own, [*seeds, *(run.seed for run in there)])
    if there and _settings(own) != settings:
        raise TrialError(
            f"{own / SETTINGS}: expected {settings!r}, found {_settings(own)!r}; give a trial by other settings "
            "another name"
        )
    make_dirs(own)
    write_text(own / SETTINGS, settings + "\n")


def under(arm: Arm, overrides: Sequence[str]) -> Arm:
    """The arm with these settings of launch.py beside its own and the study's, over both."""
    return replace(arm, overrides=(*arm.overrides, *overrides))


def _of(own: Path) -> Iterator[Trial]:
    settings = _settings(own)
    runs = summary.read_all(own)
    _check(own, [run.seed for run in runs])
    return (Trial(own.name, settings, run) for run in runs)


def _settings(own: Path) -> str:
    told = own / SETTINGS
    if not told.is_file():
        raise TrialError(
            f"{told}: expected a line that says by what settings {own.name} was run, found no file"
        )
    return told.read_text(encoding="utf-8").strip()


def _check(own: Path, seeds: Sequence[int]) -> None:
    if seeds and not any(set(seeds) <= set(kind) for kind in (world.TUNING, world.CHECKING)):
        raise TrialError(
            f"{own}: expected seeds of {_range(world.TUNING)}, or of {_range(world.CHECKING)} to check what was found "
            f"on those, found {', '.join(map(str, seeds))}; settings that are tried on seeds of the study are chosen "
            "by looking at its results, and training tasks of seeds beyond these may be held out"
        )


def _range(seeds: Sequence[int]) -> str:
    return f"{seeds[0]} to {seeds[-1]}"
