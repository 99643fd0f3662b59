"""A configuration from overrides, as launch.py composes it, for the commands that start no run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import hydra
from hydra.errors import HydraException

from rods.config import Config, ConfigError, from_mapping, validate

FOLDER = Path(__file__).parents[2] / "conf"


def compose(overrides: Sequence[str]) -> Config:
    """The configuration that `launch.py OVERRIDES…` would have, checked.

    Raises:
        ConfigError: no such key or value, or the configuration contradicts itself.
    """
    try:
        with hydra.initialize_config_dir(version_base="1.3", config_dir=str(FOLDER)):
            config = from_mapping(hydra.compose("config", overrides=list(overrides)))
    except HydraException as error:
        raise ConfigError(
            f"{' '.join(overrides)}: expected overrides of conf/ such as synthesis=paper or synthesis.workers=8 "
            f"({' '.join(str(error).split())})"
        ) from error
    validate(config)
    return config
