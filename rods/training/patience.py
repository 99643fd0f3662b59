"""How long a run that was asked to stop still waits for the episodes under way.

A scheduler kills the run soon after the signal, and a checkpoint needs its share of the time. Rollouts change nothing
that is kept: what is left in their middle is drawn again after the resume, by the same seeds. Rank 0 decides; the
others hear of it while they play (`rods.training.ranks`), and where the shares meet all of them leave, or none does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from rods.errors import RodsError
from rods.rollout import ranks
from rods.training import together

Value = TypeVar("Value")

_ASK_EVERY_S = 0.5
_LOOK_EVERY_S = 0.02


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
        self._may_leave = True

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


def shared(own: Callable[[], Value], still: Callable[[], None]) -> list[Value]:
    """Each rank's share of episodes, in the order of the ranks. Collective.

    Args:
        own: plays this rank's share.
        still: called again and again while others are at theirs.

    Raises:
        AbandonedError: on every rank, since `own` or `still` raised it on one of them.
    """
    if together.single():
        return [own()]
    share = _unless_left(own)
    arrival = ranks.arrive()
    while not arrival.is_completed():
        if share and not _unless_left(still):
            share = []
        time.sleep(_LOOK_EVERY_S)
    arrival.wait()
    shares = ranks.from_all(share)
    if not all(shares):
        left = ", ".join(str(rank) for rank, given in enumerate(shares) if not given)
        raise AbandonedError(f"episodes were left in their middle by rank {left} of {len(shares)}")
    return [value for (value,) in shares]


def _unless_left(action: Callable[[], Value]) -> list[Value]:
    """What `action` gives, as a list of one; [] when it left."""
    try:
        return [action()]
    except AbandonedError:
        return []
