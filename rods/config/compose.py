"""A configuration from overrides, as launch.py composes it, for the commands that start no run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException

from rods.config import Config, ConfigError, from_mapping, validate
from rods.config.folder import FOLDER
from rods.config.typed import explained

_FIRST = ("experiment", "ablation")  # in this order before all others: each may change what stands before it


def compose(overrides: Sequence[str]) -> Config:
    """The configuration that `launch.py OVERRIDES…` would have, checked.

    Raises:
        ConfigError: no such key or value, or the configuration contradicts itself.
    """
    try:
        with _apart(), hydra.initialize_config_dir(version_base="1.3", config_dir=str(FOLDER)):
            config = from_mapping(hydra.compose("config", overrides=in_order(overrides)))
    except HydraException as error:
        raise ConfigError(explained(error)) from error
    validate(config)
    return config


@contextmanager
def _apart() -> Iterator[None]:
    """launch.py is Hydra's already, and Hydra is one a process: it is put aside meanwhile."""
    outer = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        yield
    finally:
        GlobalHydra.instance().hydra = outer


def in_order(overrides: Sequence[str]) -> list[str]:
    """The experiment first, then its ablation: an experiment's file would undo what an ablation did before it."""
    return sorted(overrides, key=_rank)


def _rank(override: str) -> int:
    name = override.split("=")[0].lstrip("+")
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)
