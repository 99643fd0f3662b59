"""A real Slurm for the tests: eight virtual nodes with eight fake GPUs each, up in seconds, ended by process id."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from scenarios import SCENARIOS
from slurm_runs import Run

HERE = Path(__file__).parent
COMMANDS = ("slurmctld", "slurmd", "slurmdbd", "munged", "mariadbd", "sbatch", "srun")
NODES = 8
AT_ONCE = 3  # runs: two cores are busy then, while others wait for Slurm


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
    environment = os.environ | {
        "SLURM_CONF": str(folder / "slurm.conf"),
        "BASE_PORT": str(_free_ports()),
        "KILL_WAIT": "15",  # seconds between a job's SIGTERM and SIGKILL: a loaded machine needs them
        "PATH": f"{os.environ['PATH']}:/usr/sbin",
    }
    try:
        up = subprocess.run(
            ["bash", str(HERE / "cluster_up.sh"), str(folder), str(NODES)],
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


@pytest.fixture(scope="session")
def fleet(
    request: pytest.FixtureRequest, cluster: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Run]]]:
    """Every scenario that a collected test looks at, under way."""
    wanted = {mark.args[0] for item in request.session.items for mark in item.iter_markers("scenario")}
    wanted.add("straight")  # the others are compared with it
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            name: pool.submit(play, cluster, tmp_path_factory.mktemp(name))
            for name, play in SCENARIOS.items()
            if name in wanted
        }
        pool.shutdown(cancel_futures=True)


@pytest.fixture
def run(request: pytest.FixtureRequest, fleet: dict[str, Future[Run]]) -> Run:
    """The run of the scenario that the test is marked with, at its end."""
    mark = request.node.get_closest_marker("scenario")
    return fleet[mark.args[0]].result()


@pytest.fixture
def straight(fleet: dict[str, Future[Run]]) -> Run:
    """The run that nothing happened to."""
    return fleet["straight"].result()


def _free_ports() -> int:
    """A number from which on the cluster's ports are free."""
    for base in range(20000, 30000, 200):
        with_sockets = [base + offset for offset in (*range(NODES + 1), 90, 91)]
        if all(_is_free(port) for port in with_sockets):
            return base
    raise AssertionError("no free ports for a cluster between 20000 and 30000")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
