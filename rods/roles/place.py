"""Does this machine have what a run needs from it? Asked before a run directory is made."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from launchers import slurm
from rods import model_path
from rods.config import Config
from rods.errors import RodsError
from rods.evaluation import launched, policies
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


def warn(configs: Iterable[Config]) -> None:
    """Say on standard error which models of runs on Slurm are not here: one line a model.

    It is no refusal: the nodes of a cluster may see files that the machine of the launch does not.
    """
    for sentence in dict.fromkeys(sentence for config in configs for sentence in _absent(config)):
        print(f"launch.py: warning: {sentence}", file=sys.stderr)


def _absent(config: Config) -> Iterator[str]:
    if config.cluster.kind != "slurm":
        return
    if config.evaluation.enabled:
        yield from _absent_policy(config)
        return
    # Imported here: the hub's client takes a third of a second that a launch on this machine does not need.
    from rods.doctor import files
    from rods.doctor.finding import Level

    for name, path in files.models(config).items():
        found = files.weights(f"weights of {name}", path)
        if found.level is not Level.ok:
            yield f"{found.probe}: {found.measured.rstrip('.')}. {found.meaning}"


def _absent_policy(config: Config) -> Iterator[str]:
    """A run that is resumed goes on with the policy that it began with."""
    if config.launch.resume:
        return
    try:
        policies.find(config.evaluation.policy)
    except RodsError as error:
        yield f"the policy to be scored: {error}"
