"""Both roles as one heterogeneous Slurm job, which is one submitit job.

Two separate jobs can wait for each other while each holds its GPUs; the components of a heterogeneous job
start together or not at all. submitit knows no such jobs: the executor here writes their batch text and its
watcher folds the components' states ("5+0", "5+1") into the job's.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from submitit.core.utils import FailedJobError, FailedSubmissionError
from submitit.slurm.slurm import SlurmExecutor, SlurmInfoWatcher, SlurmJob, _make_sbatch_string

from launchers.errors import LaunchError
from launchers.resources import Resources, resources
from rods.config import Config
from rods.exchange import permissions

# A component in one of these ends the job …
FAILED_STATES = ("FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT", "CANCELLED", "BOOT_FAIL", "DEADLINE")
# … unless the lead component is in one of these (Slurm is putting the whole job back).
ALIVE_STATES = ("PENDING", "REQUEUED", "RUNNING")
# Set inside a job or by a user's profile; sbatch prefers SBATCH_* to the text's own #SBATCH lines.
# SLURM_CONF and SLURM_JWT say which cluster this is and who asks.
INHERITED = re.compile(r"^(SLURM|SBATCH|SRUN|PMIX|PMI|SUBMITIT)_(?!(CONF|JWT)$)")


class HetWatcher(SlurmInfoWatcher):
    """sacct names components "5+0", "5+1" while submitit looks up "5": a crash would never be seen."""

    def read_info(self, string: bytes | str) -> dict[str, dict[str, str]]:
        """submitit's table, with each job's own id standing for the worst of its components."""
        info = super().read_info(string)
        for key in [key for key in info if "+" in key]:
            lead, state = key.split("+")[0], info[key]["State"].split()[0]
            if lead not in info or (state in FAILED_STATES and info[lead]["State"] not in ALIVE_STATES):
                info[lead] = info[key]
        return info


class HetJob(SlurmJob[Any]):
    """A submitit job whose state is asked of `HetWatcher`."""

    watcher = HetWatcher(delay_s=30)


class HetSlurmExecutor(SlurmExecutor):
    """submitit's executor with a batch text of its own.

    Args:
        folder: where submitit keeps pickles, results and the batch file.
        config, run_dir, attempt: the run whose roles are started; see `sbatch_text`.
    """

    job_class = HetJob

    def __init__(self, folder: Path, config: Config, run_dir: Path, attempt: int) -> None:
        super().__init__(folder)
        self._run = (config, run_dir, attempt)

    def _num_tasks(self) -> int:
        return sum(role.nodes for role in resources(self._run[0]))

    def _make_submission_file_text(self, command: str, uid: str) -> str:
        return sbatch_text(*self._run, folder=Path(self.folder), command=command)


def describe(config: Config, run_dir: Path, attempt: int) -> str:
    """The batch text that `submit` would hand to sbatch, with this interpreter."""
    folder = submitit_folder(run_dir, attempt)
    command = f"{shlex.quote(sys.executable)} -u -m submitit.core._submit {shlex.quote(str(folder))}"
    return sbatch_text(config, run_dir, attempt, folder=folder, command=command)


def submitit_folder(run_dir: Path, attempt: int) -> Path:
    """Where submitit keeps one submission's pickles and results."""
    return run_dir / "attempts" / f"{attempt:04d}" / "submitit"


def sbatch_text(config: Config, run_dir: Path, attempt: int, *, folder: Path, command: str) -> str:
    """The whole batch file: one component a role, both steps in one srun.

    Args:
        attempt: number of the first start; Slurm's restart count is added to it at each requeue.
        folder: submitit's folder, where the batch script itself logs.
        command: what each task runs.
    """
    roles = resources(config)
    headers = "\n#SBATCH hetjob\n".join(_header(config, role, folder) for role in roles)
    steps = " : \\\n  ".join(_step(k, role, len(roles) > 1, command) for k, role in enumerate(roles))
    body = [
        "#!/bin/bash",
        headers,
        "",
        f"umask {permissions.umask(config.exchange.mode):04o}",
        *config.cluster.setup,
        f"export RODS_RUN_DIR={shlex.quote(str(run_dir))}",
        f"export RODS_ATTEMPT=$(({attempt} + ${{SLURM_RESTART_COUNT:-0}}))",
        'export RODS_LOGS="$RODS_RUN_DIR/attempts/$(printf %04d "$RODS_ATTEMPT")"',
        'export PYTHONPATH="$RODS_RUN_DIR/code" PYTHONSAFEPATH=1 SUBMITIT_EXECUTOR=slurm',
        'mkdir -p "$RODS_LOGS"',
        "srun --unbuffered \\",
        f"  {steps}",
    ]
    return "\n".join(body) + "\n"


def _header(config: Config, role: Resources, folder: Path) -> str:
    cluster = config.cluster
    gpus = f"{cluster.gpu_type}:{role.gpus_per_node}" if cluster.gpu_type else str(role.gpus_per_node)
    text = _make_sbatch_string(
        command="true",
        folder=folder,
        job_name=f"rods-{config.name}",
        time=round(cluster.time_hours * 60),
        signal_delay_s=cluster.signal_seconds,
        partition=cluster.partition or None,
        account=cluster.account or None,
        qos=cluster.qos or None,
        wckey=None,  # type: ignore[arg-type]  # submitit's default "submitit" is refused where wckeys are checked
        nodes=role.nodes,
        ntasks_per_node=1,
        cpus_per_task=role.cpus_per_task,
        gpus_per_node=gpus if role.gpus_per_node else None,  # type: ignore[arg-type]  # "a100:8" is Slurm's form
        mem=f"{role.mem_gb}GB" if role.mem_gb else None,
        additional_parameters={"requeue": True, **cluster.extra},
    )
    return "\n".join(line for line in text.splitlines() if line.startswith("#SBATCH"))


def _step(index: int, role: Resources, heterogeneous: bool, command: str) -> str:
    """One role's part of the srun line. The task opens its own logs: srun's %j, %t are the component's."""
    suffix = "" if role.nodes == 1 else ".$SLURM_PROCID"
    log = f"$RODS_LOGS/{role.role}{suffix}"
    wrap = f'export RODS_ROLE={role.role}; exec "$@" >>"{log}.out" 2>>"{log}.err"'
    # srun takes no --cpus-per-task from its job since Slurm 22.05.
    options = (
        f"--nodes={role.nodes} --ntasks-per-node=1 --cpus-per-task={role.cpus_per_task} --kill-on-bad-exit=1"
    )
    group = f"--het-group={index} " if heterogeneous else ""
    return f"{group}{options} bash -c {shlex.quote(wrap)} _ {command}"


def check_available() -> None:
    """Whether jobs can be submitted from here.

    Raises:
        LaunchError: no Slurm on this machine.
    """
    if shutil.which("sbatch") is None or shutil.which("srun") is None:
        raise LaunchError(
            "cluster.kind = slurm: expected the commands sbatch and srun on this machine, found none; launch "
            "on a login node of the cluster, or set cluster=local (launch.mode=plan shows the batch text)"
        )


@contextmanager
def scrubbed_environment() -> Iterator[None]:
    """Keep out of the new job what an enclosing job or a profile left in `os.environ`; put it back after."""
    inherited = {key: os.environ.pop(key) for key in list(os.environ) if INHERITED.match(key)}
    try:
        yield
    finally:
        os.environ.update(inherited)


def submit(config: Config, run_dir: Path, attempt: int, function: Callable[[str], int]) -> HetJob:
    """Hand the frozen run to Slurm and return at once.

    Args:
        function: a top-level function that each task calls with the run directory; it finds its role and its
            attempt in the environment.

    Raises:
        LaunchError: no Slurm on this machine, or sbatch refused; its message is shown.
    """
    check_available()
    executor = HetSlurmExecutor(submitit_folder(run_dir, attempt), config, run_dir, attempt)
    executor.update_parameters(time=round(config.cluster.time_hours * 60))
    try:
        with scrubbed_environment():
            job = executor.submit(function, str(run_dir))
    except (FailedJobError, FailedSubmissionError) as error:
        raise LaunchError(f"sbatch refused the job of {run_dir}: {error}") from error
    assert isinstance(job, HetJob)
    return job
