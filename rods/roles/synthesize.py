"""The synthesis role: put the parts together and serve seeds until asked to stop."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

from launchers import snapshot
from rods import tasks as task_sources
from rods.config import Config
from rods.exchange import replica, stop
from rods.exchange.heartbeat import Heartbeat
from rods.exchange.rundir import RunDir
from rods.synthesis.daemon import Daemon
from rods.synthesis.pipeline import Pipeline
from rods.synthesis.records import ROLE
from rods.synthesis.service import open_backend
from rods.synthesis.simulating import simulation
from rods.tracking_live import following

log = logging.getLogger(__name__)

_BEAT_EVERY_S = 5.0


def main(run_dir: str, attempt: int) -> int:
    """Serve the run's seeds until its stop file appears; 0 then, with unfinished claims handed back.

    Raises:
        RodsError: the run cannot be served; the message is complete.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    run = replica.open_run(Path(run_dir))
    config = snapshot.load_config(run)
    try:
        with following(run, replica.writer(ROLE), config):
            asyncio.run(_serve(run, attempt, config))
    except _StoppedEarlyError:
        log.warning("asked to stop before a model server was ready")
    return 0


class _StoppedEarlyError(Exception):
    """The run was asked to stop while the role waited for a model server."""


async def _serve(run: RunDir, attempt: int, config: Config) -> None:
    task_set = task_sources.load(config.tasks)
    known = task_set.known
    exchange = config.exchange
    waiting, logs = _Waiting(run, attempt), run.attempt_dir(attempt)
    with simulation(config.synthesis.simulation_processes) as replays:
        async with open_backend(config.synthesis, run.path, logs, waiting) as backend:
            daemon = Daemon(
                run,
                attempt,
                Pipeline(config.synthesis, backend, config.seed, known, replays),
                backend,
                config.synthesis.workers,
                exchange.lease_s,
                exchange.max_deliveries,
            )
            await daemon.serve()


class _Waiting:
    """What the role does while a model server comes up: it shows signs of life and looks for a stop."""

    def __init__(self, run: RunDir, attempt: int) -> None:
        self._run, self._attempt = run, attempt
        self._heartbeat, self._due = Heartbeat(run.heartbeats, replica.writer(ROLE)), 0.0

    def __call__(self, what: str) -> None:
        if stop.is_requested(self._run, self._attempt):
            raise _StoppedEarlyError
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + _BEAT_EVERY_S
            self._heartbeat.beat("starting", attempt=self._attempt, waiting=what)
