"""A multirun from its overrides to its end: told, checked, then planned, submitted or run here."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from hydra.core.config_loader import ConfigLoader
from omegaconf import DictConfig

from launchers import sweep, sweep_table
from launchers.sweep import Point, Refused
from launchers.sweep_overrides import SweepError
from launchers.terminal import exit_status, show
from rods.config import LaunchMode
from rods.registry import Registry
from rods.roles import place

# How the checked points of a sweep are started, by the kind of cluster: points → exit status.
PLACES = Registry(
    "cluster.kind", {"local": "rods.roles.sweep_local:start", "slurm": "rods.roles.sweep_slurm:start"}
)


def main(loader: ConfigLoader, master: DictConfig, overrides: Sequence[str]) -> int:
    """Launch a multirun as `launch.mode` says; returns launch.py's exit status.

    Args:
        loader, master: Hydra's, as it hands them to a sweeper.
        overrides: what was typed, without settings of Hydra itself.
    """
    return exit_status(partial(_main, loader, master, overrides))


def _main(loader: ConfigLoader, master: DictConfig, overrides: Sequence[str]) -> int:
    made = sweep.points(loader, master, overrides)
    points = _all_or_none(made)
    for sentence in sweep_table.duplicates(points):
        print(f"launch.py: note: {sentence}", file=sys.stderr)
    if points[0].config.launch.mode is LaunchMode.plan:
        for point in points:
            place.check_files(point.config, point.overrides)
        place.warn(point.config for point in points)
        show(sweep_table.costs(points))
        return 0
    show(sweep_table.listing(made))
    for point in points:
        place.check(point.config, point.overrides)
    place.warn(point.config for point in points)
    return int(PLACES.get(points[0].config.cluster.kind)(points))


def _all_or_none(made: Sequence[Point | Refused]) -> list[Point]:
    """The points, when all of them can run.

    Raises:
        SweepError: says of each other one why not.
    """
    refused = [point for point in made if isinstance(point, Refused)]
    if refused:
        show(sweep_table.listing(made))
        lines = "\n".join(f"  {reason}" for reason in sweep.reasons(refused))
        raise SweepError(
            f"{len(refused)} of {len(made)} runs cannot run, so nothing was started; mend or leave them out:\n"
            f"{lines}"
        )
    return [point for point in made if isinstance(point, Point)]
