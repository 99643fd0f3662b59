"""Checkpoints and expanded sets as W&B artifacts: a new version whenever there are others in the run directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import wandb

from rods.config import Config
from rods.exchange.atomic import CorruptFileError, read_json, write_json
from rods.exchange.rundir import RunDir
from rods.tracking import Tracker

ROLE = "train"
_BIG = 100_000_000  # bytes; larger files are referred to, not uploaded
_COPIED = "artifacts.json"


class TrainTracker(Tracker):
    """The trainer's W&B run: its metrics, and what it leaves in the run directory as artifacts.

    Args:
        run, config, mode: as in `Tracker`.
    """

    def __init__(self, run: RunDir, config: Config, mode: str = "") -> None:
        super().__init__(run, ROLE, config, mode=mode)
        self._directory = run

    def log(self, record: Mapping[str, Any], step: int) -> None:
        """Copy the numbers of `record`, then artifacts that are new."""
        super().log(record, step)
        self.artifacts()

    def artifacts(self) -> None:
        """Copy those that changed since they were copied last."""
        if self.active:
            self.attempt(self._copy)

    def close(self, exit_code: int) -> None:
        """Copy the last artifacts and finish the W&B run."""
        self.artifacts()
        super().close(exit_code)

    def _copy(self) -> None:
        there = files(self._directory)
        for name in sorted(pending(self._directory)):
            try:
                made = artifact(self._directory, name, there[name])
            except (OSError, ValueError):
                # A checkpoint that was removed while it was listed: the next look sees what is left.
                continue
            self.artifact(made)
            if self.active:
                _remember(self._directory, name, there[name])


def pending(run: RunDir) -> set[str]:
    """Names of artifacts that hold other files than when they were copied last."""
    before = _copied(run)
    return {name for name, paths in files(run).items() if [path.name for path in paths] != before.get(name)}


def files(run: RunDir) -> dict[str, list[Path]]:
    """By artifact: expanded sets that hold anything, and complete checkpoints; only artifacts that hold something."""
    found = {
        "expanded": [path for path in sorted(run.expanded.glob("*.jsonl")) if path.stat().st_size],
        "checkpoints": [path.parent for path in sorted(run.checkpoints.glob("step_*/COMPLETE"))],
    }
    return {name: paths for name, paths in found.items() if paths}


def artifact(run: RunDir, name: str, paths: list[Path]) -> wandb.Artifact:
    """Expanded sets by content, big ones and checkpoints by reference to where they lie.

    Raises:
        OSError, ValueError: a file is not there any more.
    """
    made = wandb.Artifact(f"{run.name}-{name}", type="dataset" if name == "expanded" else "model")
    for path in paths:
        if path.is_dir() or path.stat().st_size > _BIG:
            made.add_reference(path.as_uri(), name=path.name, checksum=False)
        else:
            # It never changes again, so wandb need not make a copy in the user's home.
            made.add_file(str(path), name=path.name, policy="immutable")
    return made


def _copied(run: RunDir) -> dict[str, Any]:
    try:
        found = read_json(run.wandb / _COPIED)
    except (FileNotFoundError, CorruptFileError):
        # Then all is copied once more; W&B keeps one version of what is the same.
        return {}
    return found if isinstance(found, dict) else {}


def _remember(run: RunDir, name: str, paths: list[Path]) -> None:
    write_json(run.wandb / _COPIED, _copied(run) | {name: [path.name for path in paths]})
