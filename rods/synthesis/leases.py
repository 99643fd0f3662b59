"""Leases renewed by a thread of their own, whatever the event loop and the files' thread are busy with.

A stretch of simulation holds the event loop, and a full disk holds the files' thread for as long as it is full; with
neither may another daemon get the seeds that are worked on here.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from rods.exchange.queue import LeaseLostError
from rods.synthesis.delivery import Delivery

log = logging.getLogger(__name__)


class LeaseKeeper:
    """Renews the leases of what it holds.

    Args:
        every_s: pause between two renewals; at most a third of the lease.
        lost: told of a delivery whose lease was lost, in the thread that noticed.
    """

    def __init__(self, every_s: float, lost: Callable[[Delivery], object]) -> None:
        self._every_s, self._lost = every_s, lost
        self._held: dict[str, Delivery] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leases", daemon=True)

    def start(self) -> None:
        """Begin to renew."""
        self._thread.start()

    def stop(self) -> None:
        """Renew no more; returns when the thread has ended."""
        self._stopped.set()
        self._thread.join()

    def hold(self, delivery: Delivery) -> None:
        """Renew the lease of `delivery` from now on."""
        with self._lock:
            self._held[delivery.claim.token] = delivery

    def release(self, delivery: Delivery) -> bool:
        """Renew it no more; whether it was held."""
        with self._lock:
            return self._held.pop(delivery.claim.token, None) is not None

    def renew(self) -> None:
        """Renew all leases now."""
        with self._lock:
            held = list(self._held.values())
        for delivery in held:
            try:
                delivery.claim.renew()
            except LeaseLostError:
                # Unless it was released just now: then its file is gone because it ended.
                if self.release(delivery):
                    self._lost(delivery)
            except OSError as error:
                log.warning("a lease could not be renewed, it is tried again: %s", error)

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            self.renew()
