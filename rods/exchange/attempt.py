"""The newest attempt is the run; whatever an older one still does is void.

A process that was frozen (SIGSTOP, a lost node, a hung mount) may wake up when the run has long been continued
by another. It cannot be reached to be ended, so it has to look for itself: before it changes anything that the
attempts share, it asks whether it is still of the newest attempt.
"""

from __future__ import annotations

from rods.errors import RodsError
from rods.exchange.rundir import RunDir


class OvertakenError(RodsError):
    """A newer attempt of the run was started; this one must change nothing any more."""


class Fence:
    """Stands before what the attempts of `run` share.

    Attributes:
        attempt: number of the attempt that asks.
    """

    def __init__(self, run: RunDir, attempt: int) -> None:
        self._run = run
        self.attempt = attempt

    def check(self) -> None:
        """Nothing, for the newest attempt. Costs one listing of `attempts/`.

        Raises:
            OvertakenError: there is a newer one.
        """
        newest = self._run.last_attempt()
        if newest > self.attempt:
            raise OvertakenError(
                f"{self._run.path}: attempt {newest} of this run was started, this process belongs to attempt "
                f"{self.attempt}: it stops here and changes nothing more. Follow the newer attempt "
                f"(rods status {self._run.path})"
            )
