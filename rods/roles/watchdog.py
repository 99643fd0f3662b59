"""The end of a role in which nothing moves any more: its stacks are told, and it is no longer waited for."""

from __future__ import annotations

import faulthandler
import time

_REARM_S = 1.0
_STDERR = 2


class Watchdog:
    """Ends this process with status 1 when nothing moved for so long.

    Before that the stacks of all threads go to standard error, which lies in the attempt's folder. It is C that waits
    (`faulthandler`), so that a library that keeps Python's lock cannot hold it up.

    Args:
        seconds: 0 switches it off.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._armed_at = float("-inf")
        self.moved()

    def moved(self) -> None:
        """Something did: the time begins anew."""
        now = time.monotonic()
        if self._seconds and now - self._armed_at >= min(_REARM_S, self._seconds / 10):
            faulthandler.dump_traceback_later(self._seconds, exit=True, file=_STDERR)
            self._armed_at = now

    def close(self) -> None:
        """Wait no longer."""
        if self._seconds:
            faulthandler.cancel_dump_traceback_later()
