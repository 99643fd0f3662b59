"""The synthesis role: put the parts together and serve seeds until asked to stop."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from launchers import snapshot
from rods import tasks as task_sources
from rods.config import Config
from rods.exchange.rundir import RunDir
from rods.synthesis.agents import BACKENDS, Backend
from rods.synthesis.daemon import Daemon
from rods.synthesis.pipeline import Pipeline


def main(run_dir: str, attempt: int) -> int:
    """Serve the run's seeds until its stop file appears; 0 then, with unfinished claims handed back.

    Raises:
        RodsError: the run cannot be served; the message is complete.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    run = RunDir.open(Path(run_dir))
    config = snapshot.load_config(run)
    backend: Backend = BACKENDS.get(config.synthesis.backend)(config.synthesis)
    asyncio.run(_serve(run, attempt, config, backend))
    return 0


async def _serve(run: RunDir, attempt: int, config: Config, backend: Backend) -> None:
    task_set = task_sources.load(config.tasks)
    known = (*task_set.train, *task_set.heldout)
    pipeline = Pipeline(config.synthesis, backend, config.seed, known)
    try:
        workers, exchange = config.synthesis.workers, config.exchange
        await Daemon(
            run, attempt, pipeline, backend, workers, exchange.lease_s, exchange.max_deliveries
        ).serve()
    finally:
        await backend.close()
