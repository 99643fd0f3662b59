"""A private Slurm for `benchmarks.launch`: that of the tests, and what is asked of its queue."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_SCRIPTS = Path(__file__).parents[1] / "tests" / "slurm"
_COMMANDS = ("slurmctld", "slurmd", "slurmdbd", "munged", "mariadbd", "sbatch", "srun", "squeue", "scancel")
_POLL_S = 0.05


def missing() -> str:
    """Why no cluster can be brought up here; "" when one can."""
    path = os.environ["PATH"] + ":/usr/sbin"
    absent = [name for name in _COMMANDS if shutil.which(name, path=path) is None]
    if absent:
        return f"Slurm is not installed here (missing: {', '.join(absent)})"
    return "the private Slurm needs root" if os.getuid() else ""


@dataclass(frozen=True)
class Cost:
    """What a command took: seconds by the clock, and of processors, its children's included."""

    wall: float
    cpu: float


def cpu_seconds(ended: tuple[int, int, resource.struct_rusage]) -> float:
    """Of what `os.wait4` gave."""
    return ended[2].ru_utime + ended[2].ru_stime


@contextmanager
def cluster(base_port: int) -> Iterator[None]:
    """Four virtual nodes, up while the block runs; Slurm's commands of this process find them."""
    folder = tempfile.mkdtemp(prefix="rods-bench-")
    before = dict(os.environ)
    os.environ |= {
        "SLURM_CONF": f"{folder}/slurm.conf",
        "BASE_PORT": str(base_port),
        "PATH": os.environ["PATH"] + ":/usr/sbin",
    }
    try:
        up = ["bash", str(_SCRIPTS / "cluster_up.sh"), folder, "4"]
        subprocess.run(up, check=True, stdout=subprocess.DEVNULL, timeout=120)
        yield
    finally:
        down = ["bash", str(_SCRIPTS / "cluster_down.sh"), folder]
        subprocess.run(down, check=False, stdout=subprocess.DEVNULL, timeout=60)
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder, ignore_errors=True)


def queued() -> int:
    """How many jobs the queue holds; the components of one heterogeneous job are one."""
    command = ["squeue", "--noheader", "--array", "--format=%i"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout
    return len({line.split("+")[0] for line in listed.split()})


def until_queued(command: list[str], folder: Path, jobs: int) -> Cost:
    """Start `command` and wait until the queue holds `jobs`; then end the command and empty the queue.

    Raises:
        RuntimeError: the command ended with fewer.
    """
    with (folder / "output").open("w") as output:
        start = time.monotonic()
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
        ended: tuple[int, int, resource.struct_rusage] | None = None
        try:
            while queued() < jobs:
                ended = ended or _poll(process.pid)
                if ended and queued() < jobs:
                    raise RuntimeError(f"{command}: {(folder / 'output').read_text()[-2000:]}")
                time.sleep(_POLL_S)
            wall = time.monotonic() - start
            return Cost(wall, cpu_seconds(ended or _end(process.pid)))
        finally:
            subprocess.run(["scancel", "--user=root"], check=True, timeout=60)
            while queued():
                time.sleep(_POLL_S)


def _poll(pid: int) -> tuple[int, int, resource.struct_rusage] | None:
    found = os.wait4(pid, os.WNOHANG)
    return found if found[0] else None


def _end(pid: int) -> tuple[int, int, resource.struct_rusage]:
    os.kill(pid, signal.SIGKILL)
    return os.wait4(pid, 0)
