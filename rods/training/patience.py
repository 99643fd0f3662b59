"""How long a run that was asked to stop still waits for the episodes under way.

A scheduler kills the run soon after the signal, and a checkpoint needs its share of the time. Rollouts change nothing
that is kept: what is left in their middle is drawn again after the resume, by the same seeds.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rods.errors import RodsError
from rods.training import together

_ASK_EVERY_S = 0.5


class AbandonedError(RodsError):
    """Episodes were left in their middle, since the run was asked to stop."""


class Patience:
    """Asked while episodes are played; raises once the time after a request to stop has run out.

    Args:
        stop_requested: whether to stop.
        seconds: that episodes are given from when the request is seen.
    """

    def __init__(self, stop_requested: Callable[[], bool], seconds: float) -> None:
        self._stop_requested = stop_requested
        self._seconds = seconds
        self._may_leave = False
        self._asked_at = float("-inf")
        self._deadline: float | None = None

    def begin(self) -> None:
        """From here on nothing would be lost by leaving."""
        # One of several ranks must not leave alone: the others would wait for it.
        self._may_leave = together.single()

    def end(self) -> None:
        """From here on something would."""
        self._may_leave = False

    def ask(self) -> None:
        """Go on, or leave.

        Raises:
            AbandonedError: leave; the caller saves what was before `begin`.
        """
        now = time.monotonic()
        if not self._may_leave or now - self._asked_at < min(_ASK_EVERY_S, self._seconds):
            return
        self._asked_at = now
        if self._deadline is None and self._stop_requested():
            self._deadline = now + self._seconds
        if self._deadline is not None and now >= self._deadline:
            raise AbandonedError(
                "the rollouts under way did not end within launch.stop_deadline_s of the request"
            )
