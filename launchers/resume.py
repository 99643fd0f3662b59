"""May a run directory be continued?

Two trainers in one directory would write one journal; another experiment's events in it would make the fold
meaningless; a finished run has nothing left to do.
"""

from __future__ import annotations

from pathlib import Path

from launchers import queued
from launchers.errors import LaunchError
from launchers.identity import config_hash, differences
from launchers.snapshot import load_config
from rods.config import Config
from rods.errors import RodsError
from rods.exchange import owner, stop
from rods.exchange.heartbeat import read_all
from rods.exchange.rundir import RunDir

_SHOWN = 5


def open_for_resume(path: str, config: Config) -> RunDir:
    """The run directory at `path`, when it may be continued under `config`; this process then owns it.

    Raises:
        LaunchError: another experiment, a finished run, or one that still runs.
        OwnedError: another process follows it, or was faster.
        NotARunDirError: no run directory.
    """
    if path == "latest":
        raise LaunchError(
            "launch.resume = latest: expected a run directory; `rods resume latest` finds the newest"
        )
    run = RunDir.open(Path(path))
    frozen = load_config(run)
    if config_hash(frozen) != config_hash(config):
        changed = differences(frozen, config)
        raise LaunchError(
            f"launch.resume = {path}: its configuration differs in {len(changed)} key(s): "
            f"{'; '.join(changed[:_SHOWN])}{' …' if len(changed) > _SHOWN else ''}. "
            f"Resume it as it was frozen: rods resume {path}"
        )
    # Owned before it is asked for signs of life: what is found then stays true.
    owner.take(run, config.launch.heartbeat_timeout_s)
    try:
        _check_idle(run, path, config.launch.heartbeat_timeout_s)
    except RodsError:
        owner.release(run)
        raise
    return run


def _check_idle(run: RunDir, path: str, timeout_s: float) -> None:
    if stop.is_finished(run):
        raise LaunchError(f"launch.resume = {path}: this run has finished; start a new one to train further")
    queued.check_none(run)
    for beat in read_all(run.heartbeats).values():
        if owner.is_alive(beat, timeout_s):
            raise LaunchError(
                f"launch.resume = {path}: its role {beat.role} still runs (process {beat.pid} on "
                f"{beat.host}, last heartbeat {beat.age_s:.0f} s ago); stop it, or wait until it has been silent "
                f"for launch.heartbeat_timeout_s = {timeout_s:g} s"
            )
