"""From a checked plan to a running experiment: freeze it, start or submit its roles, follow it, report."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console

from launchers import local, resume, slurm, snapshot
from launchers.errors import LaunchError
from launchers.plan import Plan
from launchers.resources import TRAIN, resources
from rods.config import Config, LaunchMode
from rods.errors import RodsError
from rods.exchange import owner, permissions, stop
from rods.exchange.marker import MARKER
from rods.exchange.rundir import RunDir
from rods.roles import place, slurm_follower
from rods.roles.entry import run_role
from rods.roles.outcome import Outcome
from rods.roles.supervisor import Patience, Supervisor
from rods.watch.progress import LastingConsole, view

Undo = Callable[[], None]  # takes back what a launch that Slurm refuses has changed on disk


def launch(config: Config, plan: Plan, overrides: list[str]) -> int:
    """Start or continue a run as its configuration says; returns launch.py's exit status.

    Raises:
        RodsError: refused; nothing was started.
    """
    console = LastingConsole()
    place.check(config, overrides)
    place.warn([config])
    run, undo = _open(config) if config.launch.resume else _new(config, plan, overrides)
    try:
        return _start(config, run, undo, console)
    finally:
        owner.release(run)  # a detached supervisor owns the run by now and is left alone


def _start(config: Config, run: RunDir, undo: Undo, console: Console) -> int:
    attempt = run.next_attempt()
    stop.clear_stale(run, attempt)
    if config.cluster.kind == "slurm":
        return _launch_on_slurm(config, run, attempt, undo, console)
    console.print(f"run directory: {run.path}", soft_wrap=True, highlight=False)
    if config.launch.mode is LaunchMode.submit:
        return _detach(run, attempt, console)
    return follow(run, attempt, console)


def follow(run: RunDir, attempt: int, console: Console) -> int:
    """Run both roles on this machine to their end, and report; returns the exit status."""
    config = snapshot.verify(run)
    with view(run, console) as shown:
        outcome = Supervisor(
            run,
            attempt,
            [
                partial(local.start, config, run.path, part.role, attempt, run_role)
                for part in resources(config)
            ],
            Patience(config.launch.heartbeat_timeout_s),
            shown.tick,
        ).follow()
    conclude(run, outcome, console)
    return outcome.exit_code


def follow_detached(run: RunDir, attempt: int) -> int:
    """`follow` in a process of its own, which was made the run's owner when it was started."""
    permissions.adopt_from(run.path)
    try:
        return follow(run, attempt, LastingConsole())
    finally:
        owner.release(run)


def conclude(run: RunDir, outcome: Outcome, console: Console) -> None:
    """Print how the run went and where its results are. A report that fails hides nothing of that."""
    say: Callable[[str], None] = partial(console.print, soft_wrap=True, highlight=False, markup=False)
    say(f"\n{outcome.sentence}")
    say(f"run directory: {run.path}")
    try:
        # Imported here: matplotlib takes a second that neither planning nor supervising needs.
        from analysis.report import build

        paths = build(run.path)
    except (RodsError, OSError, ImportError, ValueError, KeyError) as error:
        say(
            f"the report could not be built ({type(error).__name__}: {error}); "
            f"try again: rods report {run.path}"
        )
    else:
        say(f"report:        {paths.html}")
        for plot in paths.plots:
            say(f"plot:          {plot}")
    if outcome.exit_code and any(run.checkpoints.glob(f"step_*/{MARKER}")):
        say(f"to continue:   rods resume {run.path}")


def _open(config: Config) -> tuple[RunDir, Undo]:
    """The run to be resumed, launched as `config` says from now on."""
    run = resume.open_for_resume(config.launch.resume, config)
    try:
        permissions.adopt_from(run.path)
        before = snapshot.verify(run)
        snapshot.freeze_config(run, config)
    except BaseException:
        owner.release(run)  # from another host it would look owned for as long as a silent owner does
        raise
    return run, partial(snapshot.freeze_config, run, before)


def _new(config: Config, plan: Plan, overrides: list[str]) -> tuple[RunDir, Undo]:
    """A new run. One that was refused has run nothing, and a folder that is no run would only be in the way."""
    run = create(config, plan, overrides)
    return run, partial(shutil.rmtree, run.path)


def create(config: Config, plan: Plan, overrides: list[str], like: RunDir | None = None) -> RunDir:
    """A new run directory with its code and configuration frozen; this process owns it.

    Args:
        like: another run of the same sweep, whose code it shares.

    Raises:
        RodsError, OSError: it cannot be made there; nothing is left of it.
    """
    exchange = config.exchange
    permissions.adopt(exchange.mode)
    run = RunDir.create(
        Path(config.launch.runs_dir),
        config.name,
        plan.config_hash,
        mode=exchange.mode,
        group=exchange.group,
    )
    try:
        owner.take(run, config.launch.heartbeat_timeout_s)
        snapshot.freeze(run, config, overrides, like=like)
    except (RodsError, OSError):
        shutil.rmtree(run.path, ignore_errors=True)
        raise
    return run


def supervisor_log(run: RunDir, attempt: int) -> Path:
    """Where a supervisor started by `start_supervisor` writes."""
    return run.attempt_dir(attempt) / "supervisor.out"


def start_supervisor(run: RunDir, attempt: int) -> subprocess.Popen[bytes]:
    """Start a supervisor that outlives this shell, and make it the owner of the run, which this process was."""
    with supervisor_log(run, attempt).open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "rods.roles.launching", str(run.path), str(attempt)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    owner.hand_over(run, process.pid)
    return process


def _detach(run: RunDir, attempt: int, console: Console) -> int:
    process = start_supervisor(run, attempt)
    console.print(
        f"started in the background (process {process.pid}, log {supervisor_log(run, attempt)})\n"
        f"follow it: rods status --watch {run.path}",
        soft_wrap=True,
        highlight=False,
    )
    return 0


def _launch_on_slurm(config: Config, run: RunDir, attempt: int, undo: Undo, console: Console) -> int:
    try:
        submitted = slurm.submit(config, run, attempt)
    except LaunchError:
        undo()
        raise
    ids = " ".join(job.job_id for job in submitted)
    console.print(
        f"run directory: {run.path}\n"
        f"submitted job {ids} ({run.attempt_dir(attempt)}/*.sbatch)\n"
        f"follow it: rods status --watch {run.path}   stop it: rods cancel {run.path}",
        soft_wrap=True,
        highlight=False,
    )
    if config.launch.mode is LaunchMode.submit:
        return 0
    with view(run, console) as shown:
        trainers = [job.job_id for job in submitted if TRAIN in job.roles]
        outcome = slurm_follower.follow(run, trainers, shown.tick)
    conclude(run, outcome, console)
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(follow_detached(RunDir.open(Path(sys.argv[1])), int(sys.argv[2])))
