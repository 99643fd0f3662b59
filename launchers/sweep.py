"""A multirun's points: every one is composed, checked and planned before the first is started.

A sweep is launched whole or not at all: a point that cannot run refuses it, together with all others that
cannot, so that a person mends them at once and no half of a study waits in a queue.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, open_dict

from launchers import paths, plan
from launchers.sweep_overrides import Parser, SweepError, Texts, expand
from rods.config import Config, ConfigError, from_mapping, validate
from rods.config.typed import check_named, explained
from rods.errors import RodsError

LAUNCHER = (
    "hydra._internal.core_plugins.basic_launcher.BasicLauncher"  # Hydra's default; no run goes through it
)
# A sweep is started in one way, in one place, by one process: its umask, and the frozen code, are those of all runs.
_SHARED = ("launch.mode", "launch.max_parallel", "cluster.kind", "exchange.mode", "exchange.group")


@dataclass(frozen=True)
class Point:
    """One run of a sweep.

    Attributes:
        number: from 1.
        overrides: what would be typed to launch it alone.
    """

    number: int
    overrides: Texts
    config: Config
    plan: plan.Plan


@dataclass(frozen=True)
class Refused:
    """A point that cannot run, and why."""

    number: int
    overrides: Texts
    reason: str


def points(loader: ConfigLoader, master: DictConfig, overrides: Sequence[str]) -> list[Point | Refused]:
    """Every point of a multirun, in order.

    Args:
        loader, master: Hydra's, as it hands them to a sweeper.
        overrides: what was typed, without settings of Hydra itself.

    Raises:
        SweepError: a sweep that is not what it looks like, or whose points are not to be started in one way.
        HydraException: an override that cannot be read.
    """
    parser = Parser(loader)
    composer = _Composer(loader, master, parser)
    every = expand(overrides, parser, composer.inner_sweep)
    made = [_point(composer, number, texts) for number, texts in enumerate(every, 1)]
    _check_shared([point.config for point in made if isinstance(point, Point)])
    return made


def _point(composer: _Composer, number: int, overrides: Texts) -> Point | Refused:
    refuse = partial(Refused, number, overrides)
    try:
        config = from_mapping(composer.compose(overrides))
        check_named(config)
        validate(config)
        config = paths.absolute(config)
        if config.launch.resume:
            return refuse("launch.resume names one run, a sweep makes new ones: resume each by itself")
        return Point(number, overrides, config, plan.build(config))
    except HydraException as error:
        return refuse(explained(error))
    except RodsError as error:
        return refuse(str(error))


def _check_shared(configs: Sequence[Config]) -> None:
    for key in _SHARED:
        section, name = key.split(".")
        found = sorted({str(getattr(getattr(config, section), name)) for config in configs})
        if len(found) > 1:
            option = "cluster" if key == "cluster.kind" else key
            raise SweepError(
                f"{key} differs between the runs of this sweep ({', '.join(found)}), and they are started "
                f"together: give {option}=… for all of them, or launch them apart"
            )


@dataclass(frozen=True)
class _Base:
    """A point's files, merged: what they configure, and what they ask of Hydra."""

    config: DictConfig
    hydra: DictConfig


class _Composer:
    """Composes points as Hydra does, but files only once for all points that choose the same files.

    Composing takes a tenth of a second, nearly all of it for finding, reading and merging files; the points of a
    grid mostly differ in values, which Hydra sets at the very end.
    """

    def __init__(self, loader: ConfigLoader, master: DictConfig, parser: Parser) -> None:
        self._loader, self._master, self._parser = loader, master, parser
        self._bases: dict[Texts, _Base | HydraException] = {}
        self._groups: dict[str, bool] = {}

    def compose(self, texts: Texts) -> DictConfig:
        """The configuration of one point.

        Raises:
            HydraException: it cannot be composed.
            ConfigError: its files ask for another launcher, which Hydra would not have used.
        """
        base = self._base(texts)
        _refuse_launcher(base.hydra)
        config = copy.deepcopy(base.config)
        values = [override for override in self._parser.parse(texts) if not self._chooses_file(override)]
        ConfigLoaderImpl._apply_overrides_to_config(values, config)
        return config

    def inner_sweep(self, texts: Texts) -> Mapping[str, object]:
        """What the files of a point sweep; nothing where it cannot be composed, which is told with the point."""
        try:
            return dict(self._base(texts).hydra.sweeper.params or {})
        except HydraException:
            return {}

    def _base(self, texts: Texts) -> _Base:
        """The point without its values; what cannot be composed is not tried again for each point."""
        overrides = zip(texts, self._parser.parse(texts), strict=True)
        files = tuple(text for text, override in overrides if self._chooses_file(override))
        if files not in self._bases:
            self._bases[files] = self._load(files)
        base = self._bases[files]
        if isinstance(base, HydraException):
            raise base
        return base

    def _load(self, files: Texts) -> _Base | HydraException:
        try:
            config = self._loader.load_sweep_config(self._master, list(files))
        except HydraException as error:
            return error
        hydra = config.hydra
        with open_dict(config):
            del config["hydra"]
        return _Base(config, hydra)

    def _chooses_file(self, override: Override) -> bool:
        key = override.key_or_group
        if key not in self._groups:
            self._groups[key] = bool(self._loader.get_group_options(key))
        return self._groups[key] and not isinstance(override.value(), dict)


def _refuse_launcher(hydra: DictConfig) -> None:
    found = hydra.launcher._target_
    if found != LAUNCHER:
        raise ConfigError(
            f"hydra/launcher = {found}: the runs of a sweep are started by RODS itself. Where they go is cluster=…, "
            "how is launch.mode=…; leave `override /hydra/launcher` out"
        )


def labels(overrides: Sequence[Texts]) -> list[str]:
    """What tells each point from the others: its overrides that not all have."""
    common = set.intersection(*(set(texts) for texts in overrides)) if len(overrides) > 1 else set()
    return [" ".join(text for text in texts if text not in common) for texts in overrides]


def reasons(refused: Sequence[Refused]) -> Iterator[str]:
    """Why a sweep was refused: each reason once, with the points that it holds for."""
    by_reason: dict[str, list[Refused]] = {}
    for point in refused:
        by_reason.setdefault(point.reason, []).append(point)
    for reason, same in by_reason.items():
        first, more, indented = same[0], len(same) - 1, reason.replace("\n", "\n  ")
        also = f" and {more} more: {', '.join(str(point.number) for point in same[1:6])}" if more else ""
        yield f"run {first.number}{also}{' …' if more > 5 else ''} ({' '.join(first.overrides)}): {indented}"
