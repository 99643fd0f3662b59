"""More synthesis daemons for a running experiment: each in a Slurm job of its own.

The seeds queue serves any number of daemons, and none of them is waited for, so a run grows without being touched.
"""

from __future__ import annotations

from dataclasses import replace

from launchers import jobs, lost_answer, slurm, started
from launchers.batches import daemons
from launchers.errors import LaunchError
from launchers.jobs import SubmittedJob
from launchers.resources import SYNTHESIS, resources
from launchers.snapshot import load_config
from launchers.trainers import Trainer, ask
from rods.config import Config
from rods.errors import RodsError
from rods.exchange import owner, permissions, stop
from rods.exchange.rundir import RunDir

MOST = 100  # at once: a slip of the finger would fill a cluster


def scale(run: RunDir, count: int) -> list[SubmittedJob]:
    """Submit `count` more daemons of one node each.

    Returns:
        Their jobs, listed in the run directory.

    Raises:
        LaunchError: this run cannot have more, sbatch refused, or the job cannot be listed; those before it stay.
        OwnedError: another process follows the run and is the one that may submit for it.
    """
    config = load_config(run)
    _check(run, config, count)
    slurm.check_available()
    permissions.adopt_from(run.path)
    owner.take(run, config.launch.heartbeat_timeout_s)
    try:
        return _submit(run, config, count)
    finally:
        owner.release(run)


def _check(run: RunDir, config: Config, count: int) -> None:
    if not 1 <= count <= MOST:
        raise LaunchError(f"daemons = {count}: expected a number from 1 to {MOST}")
    if config.cluster.kind != "slurm":
        raise LaunchError(
            f"{run.path}: expected a run on Slurm, found cluster.kind = {config.cluster.kind}: its one daemon shares "
            "this machine with the trainer; raise synthesis.workers instead and resume the run"
        )
    if not config.synthesis.enabled:
        raise LaunchError(f"{run.path}: expected a run with synthesis, found synthesis.enabled = false")
    if stop.is_finished(run):
        raise LaunchError(f"{run.path}: expected a run that goes on, found one that has finished")


def _submit(run: RunDir, config: Config, count: int) -> list[SubmittedJob]:
    state, trainer = ask(run)
    if state is Trainer.over:
        raise LaunchError(
            f"{run.path}: expected a trainer's job that runs or waits, found none that is not over; continue the run "
            f"first: rods resume {run.path}"
        )
    dependency = f"after:{trainer}" if state is Trainer.waiting else ""
    shape = replace(next(role for role in resources(config) if role.role == SYNTHESIS), nodes=1)
    first = _next_number(run, config)
    added = []
    with lost_answer.marked(run):
        for number in range(first, first + count):
            job = slurm.submit_batch(daemons(shape, number), config, run, run.last_attempt(), dependency)
            try:
                jobs.record(run, job)
            except (RodsError, OSError) as error:
                # The next daemon would get its number, and each would take the other for one that was overtaken.
                raise LaunchError(f"{error}{slurm.cancel([job])}") from error
            added.append(job)
    return added


def _next_number(run: RunDir, config: Config) -> int:
    """The number that no daemon of the run has had; those it was submitted with have one a node."""
    taken = [job.replica for job in started.of_run(run) if job.replica is not None]
    return max([config.cluster.synthesis.nodes, *(number + 1 for number in taken)])
