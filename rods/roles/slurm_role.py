"""A role's life inside a Slurm job: one path from a signal to a checkpoint and back into the queue.

A signal sets the process's stop flag at once; a thread asks Slurm why it came (`rods.roles.notice`) and tells the
other role through the stop file. The trainer stops with a checkpoint, records how the attempt ended, and has
the job requeued where that is what the signal asks for. A start that begins where several before it began ends
the run instead (`launch.max_stalled_attempts`).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from launchers import jobs, snapshot
from launchers.resources import TRAIN
from rods.exchange import stop
from rods.exchange.rundir import RunDir
from rods.exchange.stop import StopRequest
from rods.roles import begun, last_words, outcome
from rods.roles.notice import Listener, Notice, Task, Then, ask, explain
from rods.roles.outcome import Outcome, Status
from rods.roles.perform import Ended, perform

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)
_REQUEUE_S = 60.0
_POLL_S = 0.5
PUT_BACK = (Then.put_back, Then.put_back_now)


def listen(run: RunDir, attempt: int, task: Task, act: Callable[[Notice], None]) -> Listener:
    """From now on a signal stops this process's part in `attempt`, and `act` is told why it came."""
    listener = Listener(lambda number: explain(number, task.restart, ask(task)), act)

    def handle(number: int, _frame: object) -> None:
        stop.obey(run, attempt)
        listener.hear(number)

    for number in SIGNALS:
        signal.signal(number, handle)
    return listener


def judge(ended: Ended, heard: Notice | None, request: StopRequest | None) -> tuple[Outcome, bool]:
    """How the trainer's attempt ended, and whether it is for us to put the job back.

    Args:
        heard: the newest signal to this process, understood; None when none came.
        request: what lies in the run directory: another role's or a person's wish.
    """
    if ended.status == 0:
        return Outcome(Status.finished, "the run finished"), False
    if heard is not None and heard.then is Then.returns:
        # A lost node was noticed here, before Slurm said so.
        cause = f"; {request.reason}" if request is not None and request.then in PUT_BACK else ""
        return Outcome(Status.requeued, f"{heard.reason}{cause}"), False
    if ended.status != os.EX_TEMPFAIL:
        return Outcome(Status.failed, f"the role {TRAIN} failed: {ended.error}"), False
    reason, then = _why_stopped(heard, request)
    if then in PUT_BACK:
        return Outcome(Status.requeued, reason), True
    status = Status.failed if then == Then.failed else Status.stopped
    return Outcome(status, f"the run was stopped before its end: {reason}"), False


def _why_stopped(heard: Notice | None, request: StopRequest | None) -> tuple[str, str]:
    """The reason, and what is to follow. What a role said before it died explains srun's signal to the other."""
    if heard is not None and (heard.then is not Then.failed or request is None):
        return heard.reason, heard.then
    if request is not None:
        return request.reason, request.then
    return "the trainer ended before the end of the run", ""


class Trainer:
    """The training role's process. That of the first of several nodes speaks for all."""

    def __init__(self, run: RunDir, attempt: int) -> None:
        self._run, self._attempt = run, attempt
        self._task = Task.of(TRAIN)
        self._may_return = os.environ.get("RODS_REQUEUE", "1") == "1"
        self._limit = snapshot.load_config(run).launch.max_stalled_attempts
        self._returned = False

    def run(self) -> int:
        """Work, put the job back where it must, record how the attempt ended; returns the exit status."""
        if self._task.rank:
            from rods.roles import nodes  # torch, which synthesis has no use for

            return nodes.keep(self._run, self._attempt, self._task.rank)
        listener = listen(self._run, self._attempt, self._task, self._act)
        try:
            with last_words.using(self._end_in_the_middle):
                ended = self._begin() or perform(self._run, TRAIN, self._attempt)
        except Exception as error:
            self._record(Outcome(Status.failed, f"the role {TRAIN} failed: {type(error).__name__}: {error}"))
            raise
        ending, ours = judge(ended, listener.close(), stop.read(self._run))
        return self._conclude(self._put_back(ending.sentence) if ours else ending)

    def _begin(self) -> Ended | None:
        """Note where the attempt begins; the run's end, when too many before it began there."""
        before = self._attempt - 1
        if before and outcome.read(self._run, before) is None:
            status = Status.requeued if self._task.restart else Status.failed
            silent = Outcome(status, "the attempt ended without a word: it was killed, or its node was lost")
            outcome.record(self._run, before, silent)
        begun.note(self._run, self._attempt, self._task.job_id)
        stalled = begun.stalled(self._run, self._attempt) - 1
        return Ended(1, self._too_often(stalled)) if stalled >= self._limit else None

    def _too_often(self, count: int) -> str:
        return (
            f"{count} attempts in a row ended without a new checkpoint (launch.max_stalled_attempts = "
            f"{self._limit}); see their output in {self._run.attempts}, then: rods resume {self._run.path}"
        )

    def _act(self, heard: Notice) -> None:
        """In the listener's thread: a job that is being ended already has only seconds to be put back."""
        if heard.then is Then.put_back_now:
            self._put_back(heard.reason)

    def _end_in_the_middle(self, reason: str, then: Then) -> None:
        """In another thread, while the work hangs: the process ends when this returns."""
        if then in PUT_BACK:
            self._conclude(self._put_back(reason))
        else:
            self._conclude(Outcome(Status.failed, f"the role {TRAIN} failed: {reason}"))

    def _put_back(self, reason: str) -> Outcome:
        """Have Slurm requeue the job, unless that came to nothing too often; says how the attempt ended."""
        if self._returned or self._overtaken():
            return Outcome(Status.requeued, reason)
        if not self._may_return:
            return Outcome(Status.stopped, f"{reason}; the run's next job goes on")
        stalled = begun.stalled(self._run, self._attempt)
        if stalled >= self._limit:
            return Outcome(Status.failed, self._too_often(stalled))
        trouble = requeue(self._task.job_id)
        if trouble:
            return Outcome(Status.failed, f"{reason}, and the job could not be put back: {trouble}")
        self._returned = True
        return Outcome(Status.requeued, f"{reason}; the job was put back into the queue")

    def _conclude(self, ending: Outcome) -> int:
        if self._returned:
            ending = Outcome(Status.requeued, ending.sentence)
        self._record(ending)
        if ending.status is not Status.failed:
            return 0
        print(f"{TRAIN}: {ending.sentence}", file=sys.stderr)
        return 1

    def _record(self, ending: Outcome) -> None:
        """What a newer attempt found of this one stays."""
        if not self._overtaken():
            outcome.record(self._run, self._attempt, ending)

    def _overtaken(self) -> bool:
        return self._run.last_attempt() > self._attempt


class Companion:
    """The process of a role that shares its job with the trainer: neither goes on without the other."""

    def __init__(self, run: RunDir, role: str, attempt: int) -> None:
        self._run, self._role, self._attempt = run, role, attempt
        self._patience_s = snapshot.load_config(run).cluster.signal_seconds

    def run(self) -> int:
        """Work; returns the exit status. A failure is told to the trainer, which gets time to save its state."""
        listener = listen(self._run, self._attempt, Task.of(self._role), self._act)
        try:
            ended = perform(self._run, self._role, self._attempt)
        except Exception as error:
            self._tell_failure(f"{type(error).__name__}: {error}")
            raise
        heard = listener.close()
        if ended.status:
            self._tell_failure(ended.error)
        elif heard is not None and heard.then is Then.failed:
            self._speak_for_trainer(heard)
        return ended.status

    def _act(self, heard: Notice) -> None:
        if heard.then is not Then.failed:
            stop.request(self._run, self._attempt, f"{self._role}: {heard.reason}", heard.then)

    def _tell_failure(self, error: str) -> None:
        # This process's death makes srun end the trainer, after a few seconds by force.
        stop.request(self._run, self._attempt, f"the role {self._role} failed: {error}", Then.failed)
        deadline = time.monotonic() + self._patience_s
        while time.monotonic() < deadline and outcome.read(self._run, self._attempt) is None:
            time.sleep(_POLL_S)

    def _speak_for_trainer(self, heard: Notice) -> None:
        """A trainer that was killed (out of memory) could say nothing."""
        if outcome.read(self._run, self._attempt) is None and self._run.last_attempt() == self._attempt:
            outcome.record(self._run, self._attempt, Outcome(Status.failed, heard.reason))


def requeue(job_id: str) -> str:
    """Put a job back into Slurm's queue; why that failed, "" when it did not.

    In a container without Slurm's commands the batch script is asked to do it, once its roles have ended.
    """
    if shutil.which("scontrol") is None and "RODS_LOGS" in os.environ:
        (Path(os.environ["RODS_LOGS"]) / jobs.PUT_BACK).touch()
        return ""
    try:
        done = subprocess.run(
            ["scontrol", "requeue", job_id], capture_output=True, text=True, timeout=_REQUEUE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return " ".join(done.stderr.split()) if done.returncode else ""
