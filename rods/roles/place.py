"""Does this machine have what a run needs from it? Asked before a run directory is made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from launchers import slurm
from rods import model_path
from rods.config import Config
from rods.evaluation import launched
from rods.tasks import file


def check(config: Config, typed: Sequence[str]) -> None:
    """Refuse what can be refused before the start: no Slurm here, or files that a run on this machine lacks.

    Raises:
        RodsError: says what is missing here.
    """
    if config.cluster.kind == "slurm":
        slurm.check_available()
    check_files(config, typed)
    if config.cluster.kind == "local" and not config.evaluation.enabled:
        model_path.check_weights(config.model.path)


def check_files(config: Config, typed: Sequence[str]) -> None:
    """Whether the model and the tasks of a run on this machine are here; of other machines nothing is known.

    Raises:
        ModelNotFoundError, TaskFileError, PolicyError: names the path.
    """
    if config.evaluation.enabled:
        launched.check_typed(config, typed)
    if config.cluster.kind != "local":
        return
    if config.evaluation.enabled:
        launched.check_here(config, typed)
    model_path.resolve(config.model.path)
    if config.tasks.source == "file":
        file.check_there(Path(config.tasks.path))
