"""May a run directory be continued?

Two trainers in one directory would write one journal; another experiment's events in it would make the fold
meaningless; a finished run has nothing left to do.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from launchers.errors import LaunchError
from launchers.identity import config_hash, differences
from launchers.snapshot import load_config
from rods.config import Config
from rods.exchange import stop
from rods.exchange.heartbeat import Beat, read_all
from rods.exchange.rundir import RunDir

_SHOWN = 5


def open_for_resume(path: str, config: Config) -> RunDir:
    """The run directory at `path`, when it may be continued under `config`.

    Raises:
        LaunchError: another experiment, a finished run, or one that still runs.
        NotARunDirError: no run directory.
    """
    run = RunDir.open(Path(path))
    frozen = load_config(run)
    if config_hash(frozen) != config_hash(config):
        changed = differences(frozen, config)
        overrides = " ".join(run.read_manifest().get("overrides", []))
        raise LaunchError(
            f"launch.resume = {path}: its configuration differs in {len(changed)} key(s): "
            f"{'; '.join(changed[:_SHOWN])}{' …' if len(changed) > _SHOWN else ''}. "
            f"Compose it as it was: python launch.py {overrides} launch.resume={path}"
        )
    if stop.is_finished(run):
        raise LaunchError(f"launch.resume = {path}: this run has finished; start a new one to train further")
    for beat in read_all(run.heartbeats).values():
        if is_alive(beat, config.launch.heartbeat_timeout_s):
            raise LaunchError(
                f"launch.resume = {path}: its role {beat.role} still runs (process {beat.pid} on "
                f"{beat.host}, last heartbeat {beat.age_s:.0f} s ago); stop it, or wait until it has been silent "
                f"for launch.heartbeat_timeout_s = {config.launch.heartbeat_timeout_s:g} s"
            )
    return run


def is_alive(beat: Beat, timeout_s: float) -> bool:
    """Whether a heartbeat's writer lives: asked of this host when it ran here, else of the beat's age."""
    if beat.finished or beat.age_s > timeout_s:
        return False
    if beat.host != socket.gethostname():
        return True
    try:
        os.kill(beat.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
