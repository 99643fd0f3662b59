"""The daemon's paperwork: all that it reads and writes in the run directory, for one thread of its own.

A write to a shared file system takes milliseconds, or hours when the disk is full; the event loop has other seeds to
see to. One thread does all of it in the order in which it was asked, so that every file keeps one writer.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rods.errors import RodsError
from rods.exchange import replica, stop
from rods.exchange.attempt import Fence
from rods.exchange.heartbeat import Heartbeat
from rods.exchange.queue import DONE, HANDED_BACK, Ending, Fate, LeaseLostError, Message
from rods.exchange.rundir import RunDir
from rods.synthesis.accounting import Costs
from rods.synthesis.delivery import Delivery
from rods.synthesis.leases import LeaseKeeper
from rods.synthesis.pipeline import Outcome
from rods.synthesis.records import ROLE, Records

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Result:
    """What the work on one seed came to: an outcome, or the error that makes it unworkable."""

    key: str
    delivery: Delivery
    outcome: Outcome | BaseException


class Desk:
    """Claims seeds, answers them, keeps their leases and the daemon's records.

    Args:
        run: the run directory.
        attempt: number of this (re)start.
        lease_s: a claim not renewed for so long goes to another daemon.
        max_deliveries: claims of one seed before it is set aside.
        chores_s: between heartbeats, lease renewals and reaping.
        lost: told of a delivery whose lease was lost, in any thread.

    Attributes:
        fresh: what was claimed and not taken up yet.
    """

    def __init__(
        self,
        run: RunDir,
        attempt: int,
        lease_s: float,
        max_deliveries: int,
        chores_s: float,
        lost: Callable[[Delivery], object],
    ) -> None:
        self.fresh: deque[tuple[Delivery, Message]] = deque()
        self._run, self._attempt = run, attempt
        self._seeds = run.queue("seeds", lease_s=lease_s, max_deliveries=max_deliveries)
        self._variants = run.queue("variants")
        self._owner = f"{socket.gethostname()[:40]}-{os.getpid()}"
        writer = replica.writer(ROLE)
        self._heartbeat = Heartbeat(run.heartbeats, writer)
        self._records = Records(run, writer, attempt)
        self._fence = Fence(run, attempt)
        # A lease outlives two chores that came to nothing.
        self._chores_every_s, self._chores_due = min(chores_s, lease_s / 3), 0.0
        self._keeper = LeaseKeeper(self._chores_every_s, lost)
        self._keeper.start()

    def look(self, free: int, phase: str, open_seeds: int) -> bool:
        """Do the chores that are due and claim seeds for `free` workers; False when the run is asked to stop.

        Args:
            phase: what the daemon is at, for the heartbeat.
            open_seeds: being worked on.

        Raises:
            OvertakenError: a newer attempt of the run was started.
            OSError: the run directory cannot be read or written.
        """
        if stop.is_requested(self._run, self._attempt):
            return False
        self._chores(phase, open_seeds)
        for claim in self._seeds.claim_many(self._owner, free) if free > 0 else ():
            delivery = Delivery(claim)
            self._keeper.hold(delivery)
            for message in claim.messages:
                self._records.claimed(message.key, claim.deliveries)
                if not self._answered_before(delivery, message.key):
                    self.fresh.append((delivery, message))
        return True

    def settle(self, results: Sequence[Result], costs: Costs) -> None:
        """Answer seeds that are done with, in key order: the journal then does not depend on a set's order."""
        for result in sorted(results, key=lambda result: result.key):
            try:
                self._settle(result, costs)
            except LeaseLostError:
                # Another daemon has the seed and gives the same answer: content depends on the key alone.
                log.warning("seed %s: the lease was lost, its answer is another daemon's", result.key)

    def hand_back(self, seeds: Sequence[tuple[Delivery, str]]) -> None:
        """Put seeds back that are unfinished, and those that nobody took up."""
        fresh = [(delivery, message.key) for delivery, message in self.fresh]
        self.fresh.clear()
        for delivery, key in (*seeds, *fresh):
            try:
                self._end(delivery, key, HANDED_BACK)
            except LeaseLostError:
                continue
            self._records.handed_back(key)

    def close(self) -> None:
        """Make everything durable; leases are renewed no more."""
        self._keeper.stop()
        self._records.close()

    def _chores(self, phase: str, open_seeds: int) -> None:
        if time.monotonic() < self._chores_due:
            return
        self._chores_due = time.monotonic() + self._chores_every_s
        self._fence.check()
        self._heartbeat.beat(phase, attempt=self._attempt, open=open_seeds, **self._records.counters)
        # Before the reaping: a pause of this process must not make it reap its own claims.
        self._keeper.renew()
        self._seeds.reap()

    def _answered_before(self, delivery: Delivery, key: str) -> bool:
        """Whether somebody answered this seed and died, or lost its lease, before the claim ended; it ends now."""
        if not self._variants.known(key):
            return False
        # A put that was not finished is finished by one of the same key, which changes nothing else.
        self._variants.put(key, {})
        self._end(delivery, key, DONE)
        return True

    def _settle(self, result: Result, costs: Costs) -> None:
        result.delivery.claim.renew()
        if isinstance(result.outcome, BaseException):
            self._set_aside(result.delivery, result.key, result.outcome, costs)
            return
        outcome = result.outcome
        tasks = [task.to_json() for task in outcome.tasks]
        self._publish(result.key, tasks, outcome.reason, outcome.attempts, outcome.errors)
        self._end(result.delivery, result.key, DONE)
        self._records.finished(result.key, outcome, costs)

    def _set_aside(self, delivery: Delivery, key: str, error: BaseException, costs: Costs) -> None:
        """Quarantine a seed that cannot be worked on. A `RodsError` explains itself, anything else is a bug."""
        reason = str(error) if isinstance(error, RodsError) else f"{type(error).__name__}: {error}"
        if not isinstance(error, RodsError):
            log.error("seed %s ended in a bug and was set aside", key, exc_info=error)
        self._publish(key, [], f"quarantined: {reason}", 0, {})
        self._end(delivery, key, Ending(Fate.QUARANTINED, reason))
        self._records.quarantined(key, reason, costs)

    def _publish(
        self, key: str, tasks: list[dict[str, Any]], reason: str, attempts: int, errors: dict[str, int]
    ) -> None:
        message = {
            "key": key,
            "seed_key": key,
            "tasks": tasks,
            "outcome": "published" if tasks else "dropped",
            "reason": reason,
            "attempts": attempts,
            "errors": errors,
        }
        self._variants.put(key, message)

    def _end(self, delivery: Delivery, key: str, ending: Ending) -> None:
        try:
            delivery.end(key, ending)
        finally:
            if delivery.ended:
                self._keeper.release(delivery)
