"""What each run is: its overrides and its identity, known before it is run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.study import world
from benchmarks.study.arms import COMMON, Arm
from benchmarks.study.summary import Identity
from launchers.identity import NOT_IDENTITY
from rods.config import Config
from rods.config.compose import compose
from rods.model_path import local
from rods.tasks.model import fingerprint

_OTHER = (
    "experiment",
    "ablation",
    "exchange",
    "seed",
)  # names, where it ran, and what the summary says itself


def overrides(arm: Arm, seed: int, data: Path) -> list[str]:
    """What launch.py is given.

    Args:
        data: folder of the seed's data set.
    """
    return [*COMMON, *arm.overrides, f"seed={seed}", f"tasks.path={data}"]


def identity(arm: Arm, seed: int) -> Identity:
    """Of the run that would be made now."""
    config = composed(arm)
    policy = _policy(local(config.model.path))
    return Identity(settings(config), policy, fingerprint(world.training(seed)), fingerprint(world.heldout()))


def settings(config: Config) -> str:
    """SHA-256 (hex) of the settings that are not the schema's defaults.

    A setting that is new, and off, leaves all runs what they were. Seed and tasks are told apart by themselves; a
    default that changes is not noticed, nor is code: the summary's commit tells.
    """
    own, defaults = dict(_flat(config.to_dict())), dict(_flat(Config().to_dict()))
    unnamed = {
        key: value
        for key, value in own.items()
        if key.split(".")[0] not in (*NOT_IDENTITY, *_OTHER) and key != "tasks.path"
    }
    changed = {key: value for key, value in unnamed.items() if value != defaults.get(key)}
    return hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()


@cache
def composed(arm: Arm) -> Config:
    """The settings of an arm, with seed 0 and no data yet."""
    return compose(overrides(arm, 0, Path("data")))


@cache
def _policy(folder: str) -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(folder).iterdir()):
        if path.suffix in (".safetensors", ".json"):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def _flat(value: Any, prefix: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        return [leaf for key, inner in value.items() for leaf in _flat(inner, f"{prefix}.{key}".lstrip("."))]
    return [(prefix, json.loads(json.dumps(value)))]
