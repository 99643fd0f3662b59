"""Paths as a run keeps them: absolute, since its jobs and later attempts begin in other working directories."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from rods import model_path
from rods.config import Config

# Keys of a configuration that hold a path, or a name that may be one.
KEYS = ("model.path", "tasks.path", "simulation.cassettes", "evaluation.policy")


def absolute(config: Config) -> Config:
    """`config` with its paths as seen from here; absolute ones, and names of models, stay as they were given."""
    model, tasks, simulation, evaluation = config.model, config.tasks, config.simulation, config.evaluation
    return replace(
        config,
        model=replace(model, path=model_path.anchored(model.path)),
        tasks=replace(tasks, path=_anchored(tasks.path)),
        simulation=replace(simulation, cassettes=_anchored(simulation.cassettes)),
        evaluation=replace(evaluation, policy=model_path.anchored(evaluation.policy)),
    )


def _anchored(path: str) -> str:
    if not path or path.startswith("/"):
        return path
    return str(Path(os.path.expanduser(path)).absolute())
