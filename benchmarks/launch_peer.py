"""The peer of `benchmarks.launch`: the same configuration under Hydra's own sweeper, with a task that does nothing."""

from __future__ import annotations

import hydra
from omegaconf import DictConfig


@hydra.main(version_base="1.3", config_path="../conf", config_name="config")
def task(_config: DictConfig) -> None:
    """The stub of a job's body."""


if __name__ == "__main__":
    task()
