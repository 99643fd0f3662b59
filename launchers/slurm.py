"""Hand a run's batch jobs to Slurm, through submitit's executor.

submitit writes `#SBATCH` headers, calls sbatch and reads the job's number. Its pickles are not used: they are found
by the number of one job, so that a text with them could not be submitted again. What a job's tasks start stands in
the text alone (see `launchers.texts`).
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path

from submitit.core.utils import CommandFunction, FailedJobError, FailedSubmissionError
from submitit.slurm.slurm import SlurmExecutor

from launchers import jobs, lost_answer
from launchers.batches import Batch, batches
from launchers.errors import LaunchError
from launchers.jobs import SubmittedJob
from launchers.texts import batch_text, file_name
from rods.config import Config
from rods.errors import RodsError
from rods.exchange.atomic import write_text
from rods.exchange.pressure import say
from rods.exchange.rundir import RunDir

# Set inside a job or by a user's profile; sbatch prefers SBATCH_* to the text's own #SBATCH lines.
# SLURM_CONF and SLURM_JWT say which cluster this is and who asks.
INHERITED = re.compile(r"^(SLURM|SBATCH|SRUN|PMIX|PMI|SUBMITIT)_(?!(CONF|JWT)$)")
_SBATCH_TIMEOUT_S = 120  # sbatch retries for long where the controller is silent
_SCANCEL_TIMEOUT_S = 30


class BatchExecutor(SlurmExecutor):
    """submitit's executor for a text that lies in the run directory already."""

    def submit_file(self, file: Path, dependency: str) -> str:
        """Call sbatch on `file`; returns the job's number.

        Args:
            dependency: as sbatch's option of that name takes it; "" for none.

        Raises:
            FailedJobError, FailedSubmissionError: sbatch refused, or gave no answer; with what it said.
        """
        command = ["timeout", str(_SBATCH_TIMEOUT_S), "sbatch"]
        if dependency:
            # A dependency that can never be met would keep the job pending for ever.
            command += [f"--dependency={dependency}", "--kill-on-invalid-dep=yes"]
        # submitit prints what a failing command said and raises it too: it is told once, by whoever catches it.
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            output = CommandFunction([*command, str(file)], verbose=False)()
        return self._get_job_id_from_submission_command(output)


def describe(config: Config, run_dir: Path, attempt: int) -> str:
    """The batch texts that `submit` would hand to sbatch, each under the command that does it."""
    parts = []
    for batch in batches(config):
        option = "--dependency=after:TRAINER " if batch.follows_trainer else ""
        file = f"attempts/{attempt:04d}/{file_name(batch)}"
        text = batch_text(batch, config, run_dir, attempt)
        parts.append(f"# sbatch {option}{file}\n{text}")
    chain = config.launch.chain
    if chain > 1:
        parts.append(
            f"# launch.chain={chain}: all of this {chain} times, each --dependency=afterany: the one before"
        )
    return "\n".join(parts)


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


def submit(config: Config, run: RunDir, attempt: int, after: Sequence[str] = ()) -> list[SubmittedJob]:
    """Hand the frozen run to Slurm and return at once; the jobs are listed in the run directory.

    Args:
        attempt: the newest one; its folder takes the batch files.
        after: jobs of other runs that must have ended, however, before this one starts.

    Returns:
        The jobs in the order of their submission.

    Raises:
        LaunchError: no Slurm on this machine, sbatch refused (its message is shown), or the run directory cannot be
            written. What was submitted before has been cancelled: a job that no list has would train unseen.
    """
    check_available()
    _check_path(run, config)
    submitted: list[SubmittedJob] = []
    try:
        with lost_answer.marked(run):
            for link in range(config.launch.chain):
                _submit_link(config, run, attempt, after if link == 0 else (), submitted)
            for job in submitted:
                jobs.record(run, job)
    except (RodsError, OSError) as error:
        left = cancel(submitted)
        raise LaunchError(f"{error}{left}") from error
    except BaseException:  # Ctrl-C between two calls of sbatch
        say(f"the submission was interrupted{cancel(submitted)}")
        raise
    return submitted


def _check_path(run: RunDir, config: Config) -> None:
    if not str(run.path).isprintable():
        raise LaunchError(
            f"run directory {str(run.path)!r}: expected a path that fits into one line of a batch file, found a "
            "control character in it; move the run to another folder"
        )
    if config.cluster.container.kind != "none" and {":", ","} & set(str(run.path)):
        raise LaunchError(
            f"run directory {run.path}: expected a path that can be mounted into a container, found ':' or ',' in it, "
            "which separate mounts; move the run to another folder"
        )


def _submit_link(
    config: Config, run: RunDir, attempt: int, after: Sequence[str], submitted: list[SubmittedJob]
) -> None:
    """Submit each of the run's jobs once more, every one behind its like in the link before."""
    before, trainer = list(submitted), ""
    for batch in batches(config):
        roles = tuple(role.role for role in batch.roles)
        waits = [f"afterany:{job.job_id}" for job in before if job.roles == roles][-1:]
        waits += [f"after:{trainer}"] if batch.follows_trainer else [f"afterany:{job}" for job in after]
        job = submit_batch(batch, config, run, attempt, ",".join(waits))
        submitted.append(job)
        trainer = trainer or job.job_id


def submit_batch(batch: Batch, config: Config, run: RunDir, attempt: int, dependency: str) -> SubmittedJob:
    """Write one batch file and submit it; the caller records the job.

    Raises:
        LaunchError: sbatch refused; its message is shown.
    """
    folder = run.attempt_dir(attempt)
    file = folder / file_name(batch)
    write_text(file, batch_text(batch, config, run.path, attempt))
    try:
        with scrubbed_environment():
            job_id = BatchExecutor(folder).submit_file(file, dependency)
    except (FailedJobError, FailedSubmissionError) as error:
        said = (
            str(error) or f"no answer within {_SBATCH_TIMEOUT_S} s; squeue --me shows whether it has the job"
        )
        raise LaunchError(f"sbatch refused {file_name(batch)}: {said}") from error
    return replace(lost_answer.listed(batch, job_id, attempt), time=time.time())


def cancel(submitted: Sequence[SubmittedJob]) -> str:
    """Cancel jobs of a submission that failed in its middle; what to say of them."""
    ids = [job.job_id for job in submitted]
    if not ids:
        return ""
    try:
        subprocess.run(["scancel", *ids], check=True, capture_output=True, timeout=_SCANCEL_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError):
        return f"; could not be cancelled, do it by hand: scancel {' '.join(ids)}"
    return f"; cancelled, since they belong together: {', '.join(ids)}"
