"""Runs put together by what they have in common: a system is a configuration, its runs differ by their seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis import system_names
from analysis.load import RunData
from rods.errors import RodsError

_NOT_THE_SYSTEM = ("seed", "launch", "tracking", "cluster", "exchange")  # where and how it ran, not what
_Settings = dict[str, str]


class MixedRunsError(RodsError):
    """Runs that cannot be put side by side."""


@dataclass(frozen=True)
class System:
    """One configuration.

    Attributes:
        name: experiment and ablation, and settings that tell it from others of these names.
        experiment, ablation: as configured; the ablation is "" for none.
        runs: by seed.
    """

    name: str
    experiment: str
    ablation: str
    runs: Mapping[int, RunData]

    @property
    def config(self) -> Mapping[str, Any]:
        """What all of its runs have in common, and the seed of the first."""
        return next(iter(self.runs.values())).config


def group(runs: Sequence[RunData]) -> list[System]:
    """Systems in the order of their first runs.

    Raises:
        MixedRunsError: a run named twice, or two runs of one system with the same seed.
    """
    found: dict[tuple[tuple[str, str], ...], list[RunData]] = defaultdict(list)
    for run in runs:
        found[tuple(settings(run.config).items())].append(run)
    names = system_names.names([dict(own) for own in found])
    return [_system(name, own) for name, own in zip(names, found.values(), strict=True)]


def flat(config: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    """The settings as dotted keys and text."""
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", str(value)


def settings(config: Mapping[str, Any]) -> _Settings:
    """What makes the system: dotted keys and text, in order, without where and how a run of it ran."""
    return dict(sorted(flat({key: value for key, value in config.items() if key not in _NOT_THE_SYSTEM})))


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """In how many settings of what a run does two configurations differ."""
    return len(settings(one).items() - settings(other).items())


def _system(name: str, runs: Sequence[RunData]) -> System:
    by_seed: dict[int, RunData] = {}
    for run in runs:
        if (other := by_seed.setdefault(run.config["seed"], run)) is not run:
            raise MixedRunsError(
                f"expected one run per seed of a system, found {other.name} and {run.name}, both with seed "
                f"{run.config['seed']} and the same settings; give one of them"
            )
    config = runs[0].config
    experiment, ablation = (str(config.get(key, "")) for key in system_names.NAMED)
    return System(name, experiment, ablation, dict(sorted(by_seed.items())))
