"""Go on with a run from what is frozen in it: nobody has to know any more how it was launched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from launchers import plan, snapshot
from launchers.identity import NOT_IDENTITY, plain
from launchers.terminal import show
from rods.config import Config, ConfigError, LaunchMode, from_mapping, validate
from rods.exchange.rundir import RunDir
from rods.roles import launching


def resume(run: RunDir, overrides: Sequence[str]) -> int:
    """Continue `run` as `launch.py launch.resume=…` does; returns its exit status.

    Args:
        overrides: of how it is launched; see `configuration`.

    Raises:
        RodsError: refused; nothing was started.
    """
    config = configuration(run, overrides)
    planned = plan.build(config)
    if config.launch.mode is LaunchMode.plan:
        show(plan.render(planned))
        return 0
    return launching.launch(config, planned, run.read_manifest().get("overrides", []))


def configuration(run: RunDir, overrides: Sequence[str]) -> Config:
    """The frozen configuration with `overrides` on top, checked, set to continue the run.

    Args:
        overrides: KEY=VALUE under cluster, launch or tracking, or cluster=NAME and the like for a whole file of
            conf/; the rest is the experiment, which stays.

    Raises:
        ConfigError: another key, a wrong value, or a configuration that cannot run.
        SnapshotError: the frozen configuration cannot be read.
    """
    for override in overrides:
        _check(override)
    files = [text for text in overrides if "." not in text.split("=")[0]]
    values = [text for text in overrides if text not in files]
    whole = plain(snapshot.load_config(run)) | _sections(files)
    merged = OmegaConf.create(whole)
    try:
        for text in values:
            key, _, value = text.partition("=")
            OmegaConf.update(merged, key, _read(value), force_add=True)
        OmegaConf.update(merged, "launch.resume", str(run.path))
    except (OmegaConfBaseException, yaml.YAMLError) as error:
        raise ConfigError(f"{' '.join(values)}: {' '.join(str(error).split())}") from error
    config = from_mapping(merged)
    validate(config)
    return config


def _read(value: str) -> Any:
    """A value as YAML writes it, with every single one in it as text: the schema knows which of them are numbers.

    An account may be 0042.
    """
    return yaml.load(value, Loader=yaml.BaseLoader) if value else ""


def _check(override: str) -> None:
    key, equals, _ = override.partition("=")
    section = key.split(".")[0]
    if not equals or section not in NOT_IDENTITY or key == "launch.resume":
        raise ConfigError(
            f"{override}: expected KEY=VALUE with a key of {', '.join(NOT_IDENTITY)} (how the run is launched); "
            "everything else is the experiment and stays as it was frozen"
        )


def _sections(files: Sequence[str]) -> dict[str, Any]:
    """What the chosen files of conf/ hold, by section: whole, since the options of one cluster are not another's."""
    if not files:
        return {}
    from rods.config.compose import compose  # Hydra: only where a file is chosen

    composed = plain(compose(files))
    return {name: composed[name] for name in (text.split("=")[0] for text in files)}
