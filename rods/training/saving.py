"""When checkpoints and policies are written: while the loop waits, or while the next steps run.

Either way one is whole or not there, an export stands before the checkpoint that knows of it, and what was taken from
the queues is acknowledged by the journal records that the newest whole checkpoint covers, never by one under way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from rods.config import TrainingConfig
from rods.exchange.attempt import Fence
from rods.exchange.rundir import RunDir
from rods.training import checkpoint, together
from rods.training.checkpoint import Exports, Position, Saves
from rods.training.ledger import Ledger
from rods.training.protocols import Stepper
from rods.training.tracker import Snapshot

_CHECKPOINT = "checkpoint"
_log = logging.getLogger(__name__)


class Writer(Protocol):
    """Does what is to be written, one after the other."""

    def state(self, stepper: Stepper) -> AbstractContextManager[Saves]:
        """The policy's state as it is to be written, until it is left."""

    def submit(self, name: str, job: Callable[[], object]) -> None:
        """Have `job` done; the one before it of that name is waited for. Raises what an earlier one raised."""

    def check(self) -> None:
        """Raise what a job raised that has failed."""

    def finish(self) -> None:
        """Wait until all is written. Raises what a job raised."""

    def close(self) -> None:
        """Wait for what is under way and end."""


class AtOnce:
    """The loop waits for each job."""

    def state(self, stepper: Stepper) -> AbstractContextManager[Saves]:
        """The stepper itself: nothing trains meanwhile."""
        return nullcontext(stepper)

    def submit(self, name: str, job: Callable[[], object]) -> None:
        """Do it."""
        job()

    def check(self) -> None:
        """Nothing is under way."""

    def finish(self) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        """Nothing is under way."""


class Beside:
    """A thread does the jobs; of each name one at a time waits or is done."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=_CHECKPOINT)
        self._jobs: dict[str, Future[object]] = {}

    def state(self, stepper: Stepper) -> AbstractContextManager[Saves]:
        """A copy in host memory; the checkpoint before it is waited for, since it was written from there."""
        self._await(_CHECKPOINT)
        return stepper.capture()

    def submit(self, name: str, job: Callable[[], object]) -> None:
        """See `Writer`."""
        self._await(name)
        self._jobs[name] = self._pool.submit(_do, name, job)

    def check(self) -> None:
        """See `Writer`."""
        for job in list(self._jobs.values()):
            if job.done():
                job.result()

    def finish(self) -> None:
        """See `Writer`."""
        for name in list(self._jobs):
            self._await(name)

    def close(self) -> None:
        """See `Writer`."""
        self._pool.shutdown()

    def _await(self, name: str) -> None:
        if name in self._jobs:
            self._jobs[name].result()


class Saver:
    """Writes the checkpoints and policies of one attempt.

    Args:
        stepper: holds the policy.
        ledger: holds the curriculum.
        training: says when, and how many checkpoints stay.
    """

    def __init__(
        self, run: RunDir, fence: Fence, stepper: Stepper, ledger: Ledger, training: TrainingConfig
    ) -> None:
        self._run, self._fence = run, fence
        self._stepper, self._ledger = stepper, ledger
        self._keep = training.keep_checkpoints
        self._writer: Writer = Beside() if training.async_checkpoint else AtOnce()

    def checkpoint(self, step: int, extra: dict[str, Any]) -> None:
        """Write a checkpoint of the state as it is now.

        Args:
            step: steps done.
            extra: the loop's own small state, JSON data.

        Raises:
            OvertakenError: a newer attempt was started.
            OSError, RuntimeError, PeerError: this one or an earlier one could not be written (see `checkpoint.save`).
        """
        self._fence.check()
        state = self._writer.state(self._stepper)
        snapshot = self._ledger.snapshot()
        self._writer.submit(_CHECKPOINT, partial(self._write, state, snapshot, step, extra))

    def policy(self, target: Path, then: Callable[[], object] = lambda: None) -> None:
        """Write the policy as it is now to the folder `target`, then do `then`. Raises as `checkpoint`."""
        policy = self._stepper.capture_policy()
        self._writer.submit(target.name, partial(_export, target, policy, then))

    def check(self) -> None:
        """Raise what could not be written meanwhile."""
        self._writer.check()

    def finish(self) -> None:
        """Wait until all is written. Raises what could not be."""
        self._writer.finish()

    def close(self) -> None:
        """Wait for what is under way; nothing is written afterwards."""
        self._writer.close()

    def _write(
        self, state: AbstractContextManager[Saves], snapshot: Snapshot, step: int, extra: dict[str, Any]
    ) -> None:
        whole = {"step": step, **extra, "ledger": snapshot.summary()}
        position = Position(step, self._fence.attempt, snapshot.records)
        with state as saves:
            self._writer.check()  # without the policy that was to be written before it, it would know of one too many
            checkpoint.save(self._run, position, saves, whole, self._keep, snapshot.save)
        self._fence.check()
        self._ledger.write_tracker(snapshot)


def _export(target: Path, policy: Exports, then: Callable[[], object]) -> None:
    checkpoint.export(target, policy)
    then()


def _do(name: str, job: Callable[[], object]) -> None:
    """Rank 0 alone does jobs: what it asks of the others, it asks them itself."""
    try:
        with together.led(True):
            job()
    except Exception as error:
        _log.error("%s could not be written: %s", name, error)
        raise
