"""What makes two configurations the same run.

How a run is launched, tracked and scheduled may change between its attempts; everything else is the
experiment, and a resume under another experiment would mix two of them in one journal.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from rods.config import Config

NOT_IDENTITY = ("launch", "tracking", "cluster")
_MISSING = "(absent)"


def plain(config: Config) -> dict[str, Any]:
    """`config` as JSON data: enums become strings, tuples become lists."""
    data: dict[str, Any] = json.loads(json.dumps(config.to_dict()))
    return data


def config_hash(config: Config) -> str:
    """SHA-256 (hex) over everything that defines the experiment; `NOT_IDENTITY` sections are left out."""
    experiment = {key: value for key, value in plain(config).items() if key not in NOT_IDENTITY}
    return hashlib.sha256(json.dumps(experiment, sort_keys=True).encode()).hexdigest()


def differences(old: Config, new: Config) -> list[str]:
    """Where two configurations define different experiments: "key: old → new", sorted by key."""
    before, after = _leaves(plain(old)), _leaves(plain(new))
    keys = sorted(key for key in before | after if key.split(".")[0] not in NOT_IDENTITY)
    pairs = [(key, before.get(key, _MISSING), after.get(key, _MISSING)) for key in keys]
    return [f"{key}: {a} → {b}" for key, a, b in pairs if a != b]


def _leaves(node: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(node, dict):
        return {prefix: node}
    return {
        k: v
        for name, child in node.items()
        for k, v in _leaves(child, f"{prefix}.{name}".lstrip(".")).items()
    }
