"""Runs put together by what they have in common: a system is a configuration, its runs differ by their seed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from analysis.load import RunData
from rods.errors import RodsError

_NOT_THE_SYSTEM = ("seed", "launch", "tracking", "cluster", "exchange")  # where and how it ran, not what
_MOST_SETTINGS = 3  # in a name
_MOST_VALUE = 24  # characters
_NAMED = ("experiment", "ablation")
_Signature = tuple[tuple[str, str], ...]


class MixedRunsError(RodsError):
    """Runs that cannot be put side by side."""


@dataclass(frozen=True)
class System:
    """One configuration.

    Attributes:
        name: experiment and ablation, and the settings in which it differs from others of these names.
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
    found: dict[_Signature, list[RunData]] = defaultdict(list)
    for run in runs:
        found[_signature(run.config)].append(run)
    return _told_apart([_system(signature, own, found) for signature, own in found.items()])


def flat(config: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    """The settings as dotted keys and text."""
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", str(value)


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """In how many settings of what a run does two configurations differ."""
    return len(set(_signature(one)) - set(_signature(other)))


def _system(signature: _Signature, runs: list[RunData], all_: Iterable[_Signature]) -> System:
    by_seed: dict[int, RunData] = {}
    for run in runs:
        if (other := by_seed.setdefault(run.config["seed"], run)) is not run:
            raise MixedRunsError(
                f"expected one run per seed of a system, found {other.name} and {run.name}, both with seed "
                f"{run.config['seed']} and the same settings; give one of them"
            )
    named = dict(signature)
    experiment, ablation = (named.get(key, "") for key in _NAMED)
    name = f"{experiment} + {ablation}" if ablation else experiment
    own = [f"{key}={shorten(value, _MOST_VALUE)}" for key, value in _differing(signature, all_)]
    if len(own) > _MOST_SETTINGS:
        own = [*own[:_MOST_SETTINGS], f"{len(own) - _MOST_SETTINGS} more"]
    return System(
        f"{name} ({', '.join(own)})" if own else name, experiment, ablation, dict(sorted(by_seed.items()))
    )


def shorten(text: str, most: int) -> str:
    """At most so many characters, the last of them an ellipsis where something is left out."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _told_apart(systems: list[System]) -> list[System]:
    """Names that two systems share, since what sets them apart is not in them, are numbered."""
    count: Counter[str] = Counter()
    found = []
    for system in systems:
        count[system.name] += 1
        number = count[system.name]
        found.append(replace(system, name=f"{system.name} #{number}") if number > 1 else system)
    return found


def _signature(config: Mapping[str, Any]) -> _Signature:
    return tuple(sorted(flat({key: value for key, value in config.items() if key not in _NOT_THE_SYSTEM})))


def _differing(signature: _Signature, all_: Iterable[_Signature]) -> list[tuple[str, str]]:
    """Settings of `signature` that others of the same experiment and ablation have otherwise.

    Runs of other versions of the code have settings that this one lacks, or lack some: those are named only where
    nothing else tells them apart.
    """
    named = [(key, value) for key, value in signature if key in _NAMED]
    twins = [dict(other) for other in all_ if set(named) <= set(other)]
    other = [item for item in signature if not all(item in twin.items() for twin in twins)]
    return [(key, value) for key, value in other if all(key in twin for twin in twins)] or other
