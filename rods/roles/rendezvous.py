"""Whether a trainer is there for a synthesis daemon in a Slurm job of its own.

Nobody waits for the daemon, and the daemon waits for the trainer only so long: eight GPUs that answer nobody are given
back. Who is there is told by heartbeats. One counts only if it is of the newest start of the run's jobs, which has put
its job's number and restart count into its attempt's folder (`attempts/<n>/start`); before it is believed that a
silent trainer has gone, Slurm is asked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from launchers.jobs import START
from launchers.resources import TRAIN
from launchers.trainers import Trainer, ask
from rods.errors import RodsError
from rods.exchange import server_clock
from rods.exchange.heartbeat import read_all
from rods.exchange.pressure import say
from rods.exchange.rundir import RunDir

_LOOK_EVERY_S = 5.0
_ASK_EVERY_S = 60.0


@dataclass(frozen=True)
class Absence:
    """Why the daemon leaves, and the job of a trainer that will come; "" when none will."""

    reason: str
    awaited: str


def is_heard(run: RunDir, silence_s: float) -> bool:
    """Whether the trainer of the newest start gave a sign of life less than `silence_s` ago.

    Raises:
        OSError, CorruptFileError: the run directory cannot be read.
    """
    start = run.attempt_dir(run.last_attempt()) / START
    beat = read_all(run.heartbeats).get(TRAIN)
    if beat is None or beat.finished or beat.age_s > silence_s:
        return False
    try:
        began = start.stat().st_mtime
    except FileNotFoundError:
        return False  # submitted, but not started: the beat is of the attempt before
    return beat.age_s <= server_clock.now(run.heartbeats) - began


class Watch:
    """Looks for the trainer, in a thread beside the daemon's work, until there has been none for too long.

    Args:
        run: as the trainer sees it.
        patience_s: how long without a trainer.
        leave: told once, when it is time to go.
        heard: as `is_heard`; ask: as `launchers.trainers.ask`; clock: monotonic seconds.
    """

    def __init__(
        self,
        run: RunDir,
        patience_s: float,
        leave: Callable[[Absence], None],
        *,
        heard: Callable[[RunDir, float], bool] = is_heard,
        ask: Callable[[RunDir], tuple[Trainer, str]] = ask,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run, self._patience_s, self._leave = run, patience_s, leave
        self._heard, self._ask, self._clock = heard, ask, clock
        self._last = self._asked = clock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="rendezvous", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._end.set()
        self._thread.join(_LOOK_EVERY_S)

    def _loop(self) -> None:
        while not self._end.wait(_LOOK_EVERY_S):
            try:
                absence = self.look()
            except (RodsError, OSError) as error:
                say(f"whether a trainer is there cannot be told: {error}")
                continue
            if absence is not None:
                self._leave(absence)
                return

    def look(self) -> Absence | None:
        """One look; why to leave, None to stay.

        Raises:
            RodsError, OSError: the run directory cannot be read.
        """
        now = self._clock()
        if self._heard(self._run, self._patience_s):
            self._last = now
            return None
        silent, late = now - self._last, now - self._last >= self._patience_s
        if not late and now - self._asked < _ASK_EVERY_S:
            return None
        self._asked = now
        state, job = self._ask(self._run)
        return self._judge(state, job, silent, late=late)

    def _judge(self, state: Trainer, job: str, silent: float, *, late: bool) -> Absence | None:
        if state is Trainer.running:
            self._last = self._clock()
        elif state is Trainer.over:
            return Absence("every trainer's job of the run is over", "")
        elif late:
            return Absence(
                f"no trainer for {silent:.0f} s (cluster.rendezvous_s = {self._patience_s:g}); Slurm says of job "
                f"{job}: {state}",
                job,
            )
        return None
