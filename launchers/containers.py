"""How a role's process gets into a container, by `cluster.container.kind`.

The run directory is always mounted, under its own path: the frozen code, the configuration and all that the two
roles share lie in it. What else a role reads (weights, an environment) is named in `cluster.container.mounts`.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from rods.config import ClusterConfig
from rods.registry import Registry


@dataclass(frozen=True)
class Wrapping:
    """What a container adds to a role's start.

    Attributes:
        options: further options of srun.
        prefix: words before the role's own command.
        python: the interpreter, as it is called inside.
    """

    options: tuple[str, ...]
    prefix: tuple[str, ...]
    python: str


def wrapping(cluster: ClusterConfig, run_dir: Path, gpus: int) -> Wrapping:
    """What `cluster.container` asks for.

    Args:
        gpus: GPUs of each node; with some, the container is shown the driver.
    """
    found: Wrapping = KINDS.get(cluster.container.kind)(cluster, run_dir, gpus)
    return found


def none(_cluster: ClusterConfig, _run_dir: Path, _gpus: int) -> Wrapping:
    """No container: this environment, which the compute nodes see under the same path."""
    return Wrapping((), (), sys.executable)


def apptainer(cluster: ClusterConfig, run_dir: Path, gpus: int) -> Wrapping:
    """Apptainer (once Singularity): a command before the role's."""
    binds = [word for mount in _mounts(cluster, run_dir) for word in ("--bind", mount)]
    driver = ["--nv"] if gpus else []
    prefix = ["apptainer", "exec", *driver, *binds, cluster.container.image]
    return Wrapping((), tuple(prefix), cluster.container.python)


def pyxis(cluster: ClusterConfig, run_dir: Path, _gpus: int) -> Wrapping:
    """Enroot through Pyxis: options of srun; the driver's hook shows it the GPUs by itself."""
    mounts = ",".join(mount if ":" in mount else f"{mount}:{mount}" for mount in _mounts(cluster, run_dir))
    options = (f"--container-image={cluster.container.image}", f"--container-mounts={mounts}")
    return Wrapping(tuple(shlex.quote(option) for option in options), (), cluster.container.python)


def _mounts(cluster: ClusterConfig, run_dir: Path) -> tuple[str, ...]:
    return (str(run_dir), *cluster.container.mounts)


KINDS = Registry(
    "cluster.container.kind", {kind: f"{__name__}:{kind}" for kind in ("none", "apptainer", "pyxis")}
)
