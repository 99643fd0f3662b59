"""A real Slurm for the tests: four virtual nodes with eight fake GPUs each, up in seconds, ended by process id."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
COMMANDS = ("slurmctld", "slurmd", "slurmdbd", "munged", "mariadbd", "sbatch", "srun")


@pytest.fixture(scope="session")
def cluster() -> Iterator[dict[str, str]]:
    """The environment in which Slurm's commands find the cluster."""
    missing = [
        name for name in COMMANDS if shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin") is None
    ]
    if missing or os.getuid():
        pytest.skip(f"needs root and Slurm's Debian packages (make test installs them); missing: {missing}")
    # Not below tmp_path: the path of a munge socket may have 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="rods-slurm-"))
    environment = dict(os.environ, SLURM_CONF=str(folder / "slurm.conf"))
    environment["PATH"] += ":/usr/sbin"
    try:
        up = subprocess.run(
            ["bash", str(HERE / "cluster_up.sh"), str(folder), "4"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        assert up.returncode == 0, up.stdout
        yield environment
    finally:
        subprocess.run(
            ["bash", str(HERE / "cluster_down.sh"), str(folder)], env=environment, timeout=60, check=False
        )
        shutil.rmtree(folder, ignore_errors=True)
