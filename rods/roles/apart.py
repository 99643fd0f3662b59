"""A synthesis daemon in a Slurm job of its own: it comes and goes without the trainer's noticing.

Its starts are numbered apart from the run's attempts, so neither its restarts nor the trainer's make the other's
process one that was overtaken. It ends with the run; without a trainer it gives its nodes back and returns when the
trainer does. One that crashes is put back by itself, until that has come to nothing too often.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import takewhile

from launchers import snapshot
from rods.errors import RodsError
from rods.exchange import journal, replica, stop
from rods.exchange.rundir import RunDir
from rods.roles import outcome, slurm_role
from rods.roles.notice import Notice, Task, Then
from rods.roles.outcome import Outcome, Status
from rods.roles.perform import Ended, perform
from rods.roles.rendezvous import Absence, Watch

_PUT_BACK = (Then.put_back, Then.put_back_now)
_ANSWERS = ("variant_published", "seed_dropped")  # records of a daemon that is worth another start
_CRASHED = "the daemon failed"  # how the sentence of such an outcome begins
_UPDATE_S = 20.0
_TRIES = 5


class Apart:
    """The process of a synthesis daemon whose job is its own. Rank 0 of several speaks for all.

    Args:
        run: with the daemon's own series of attempts.
        attempt: number of this start in it.
    """

    def __init__(self, run: RunDir, role: str, attempt: int) -> None:
        self._run, self._role, self._attempt = run, role, attempt
        self._task = Task.of(role)
        config = snapshot.load_config(run)
        self._patience_s = config.cluster.rendezvous_s
        self._limit = config.launch.max_stalled_attempts
        self._may_return = os.environ.get("RODS_REQUEUE", "1") == "1"
        self._absence: Absence | None = None
        self._returned = False

    def run(self) -> int:
        """Work; put the job back where it must, record how the start ended; returns the exit status."""
        if self._crashes() >= self._limit:
            return self._conclude(self._too_often(self._crashes(), "it was killed, or its node was lost"))
        listener = slurm_role.listen(self._run, self._attempt, self._task, self._act)
        watch = Watch(self._run.whole, self._patience_s, self._leave)
        watch.start()
        try:
            ended = perform(self._run, self._role, self._attempt)
        except Exception as error:
            self._conclude(self._after_crash(f"{type(error).__name__}: {error}"))
            raise
        watch.close()
        return self._conclude(self._judge(ended, listener.close()))

    def _act(self, heard: Notice) -> None:
        """In the listener's thread: a job that is being ended already has only seconds to be put back."""
        if heard.then is Then.put_back_now:
            self._put_back(heard.reason)

    def _leave(self, absence: Absence) -> None:
        self._absence = absence
        stop.request_by_signal(self._run, self._attempt, absence.reason)

    def _judge(self, ended: Ended, heard: Notice | None) -> Outcome:
        if stop.is_finished(self._run):
            return Outcome(Status.finished, "the run finished")
        if ended.status:
            return self._after_crash(ended.error)
        if heard is not None and heard.then is Then.returns:
            return Outcome(Status.requeued, heard.reason)
        if heard is not None:
            return self._put_back(heard.reason) if heard.then in _PUT_BACK else self._stopped(heard.reason)
        if self._absence is not None:
            return self._wait_for_trainer(self._absence)
        request = stop.read(self._run.whole)
        return self._stopped(request.reason if request else "asked to stop")

    @staticmethod
    def _stopped(reason: str) -> Outcome:
        return Outcome(Status.stopped, f"stopped before the run's end: {reason}")

    def _after_crash(self, error: str) -> Outcome:
        """Slurm waits a while before it starts a requeued job again: that is the back-off."""
        crashes = 0 if self._answered(self._attempt) else 1 + self._crashes()
        if crashes >= self._limit:
            return self._too_often(crashes, error)
        ending = self._put_back(f"{_CRASHED}: {error}")
        return ending if ending.status is Status.requeued else Outcome(Status.failed, ending.sentence)

    def _too_often(self, crashes: int, error: str) -> Outcome:
        return Outcome(
            Status.failed,
            f"the role {self._role} failed {crashes} times in a row without an answer (launch.max_stalled_attempts = "
            f"{self._limit}), the last time: {error}",
        )

    def _crashes(self) -> int:
        """So many starts in a row before this one crashed without having answered a seed."""
        return sum(1 for _ in takewhile(self._crashed, range(self._attempt - 1, 0, -1)))

    def _crashed(self, attempt: int) -> bool:
        """One that was killed said nothing; its batch script has put the job back."""
        before = outcome.read(self._run, attempt)
        if before is not None and not before.sentence.startswith(_CRASHED):
            return False
        return not self._answered(attempt)

    def _answered(self, attempt: int) -> bool:
        path = self._run.journal_file(replica.writer(self._role), attempt)
        try:
            records, _ = journal.read(path)
        except (RodsError, OSError):
            return False
        return any(record.get("name") in _ANSWERS for record in records)

    def _wait_for_trainer(self, absence: Absence) -> Outcome:
        ending = self._put_back(absence.reason) if absence.awaited else self._stopped(absence.reason)
        if ending.status is Status.requeued and not self._task.rank:
            hold_until(self._task.job_id, absence.awaited)
        return ending

    def _put_back(self, reason: str) -> Outcome:
        if not self._may_return:
            return self._stopped(f"{reason}; the run's next job goes on")
        trouble = "" if self._returned or self._task.rank else slurm_role.requeue(self._task.job_id)
        if trouble:
            return Outcome(Status.failed, f"{reason}, and the job could not be put back: {trouble}")
        self._returned = True
        return Outcome(Status.requeued, reason)

    def _conclude(self, ending: Outcome) -> int:
        if not self._task.rank and self._run.last_attempt() == self._attempt:
            outcome.record(self._run, self._attempt, ending)
        if ending.status is not Status.failed:
            return 0
        print(f"{self._role}: {ending.sentence}", file=sys.stderr)
        return 1


def hold_until(job_id: str, trainer: str) -> None:
    """Let a job that was just requeued wait for the start of `trainer`; without it, it would only wait once more.

    Slurm takes a dependency of a waiting job only, and this process has a few seconds to see the job wait.
    """
    for _ in range(_TRIES):
        command = ["scontrol", "update", f"JobId={job_id}", f"Dependency=after:{trainer}"]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_UPDATE_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return
        if done.returncode == 0:
            return
        time.sleep(0.5)
