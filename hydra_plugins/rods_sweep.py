"""The sweeper that `conf/hydra/sweeper/rods.yaml` names. Hydra finds plugins in the package hydra_plugins only.

Hydra imports this at each start of launch.py, so what it needs is imported when a sweep begins.
"""

from __future__ import annotations

import sys
from typing import Any

from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class RodsSweeper(Sweeper):
    """Hands a multirun, whole and unexpanded, to `rods.roles.sweeping`.

    Args:
        params: a sweep named in a file. Not used here: what a point's own files name is read when the point is
            composed, since Hydra drops what one of several experiments names.
    """

    def __init__(self, params: dict[str, str] | None = None) -> None:
        self.hydra_context: HydraContext | None = None
        self.config: DictConfig | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keep what composing the points needs."""
        self.hydra_context, self.config = hydra_context, config

    def sweep(self, arguments: list[str]) -> Any:
        """Launch every point; ends the process with the sweep's exit status, which Hydra would drop."""
        from rods.roles import sweeping

        assert self.hydra_context is not None
        assert self.config is not None
        sys.exit(sweeping.main(self.hydra_context.config_loader, self.config, arguments))
