"""Follow the two roles of a local run: the first to end decides, and the other is told.

One role alone would hold its resources for hours for nothing. So whatever ends first (the trainer's last
epoch, a crash, a role that stopped moving, a person's Ctrl-C) ends the run: the other role is asked through
the stop file, given time, and then ended by the id of its process group.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from launchers.resources import TRAIN
from rods.errors import RodsError
from rods.exchange import stop
from rods.exchange.heartbeat import Heartbeat, read_all
from rods.exchange.owner import SUPERVISOR
from rods.exchange.rundir import RunDir
from rods.roles import outcome as outcomes
from rods.roles.outcome import Outcome, Status
from rods.watch.progress import Forgiving, say

POLL_S = 0.5
STOPPED_EARLY = os.EX_TEMPFAIL  # the trainer's status after a stop before the end, with a checkpoint written
_BEAT_EVERY_S = 5.0
_KILL_S = 10.0  # a killed process that hangs in the kernel must not hang the supervisor


@dataclass(frozen=True)
class Patience:
    """How long the supervisor waits, in seconds.

    Attributes:
        heartbeat_s: a role silent for longer counts as dead.
        stop_s: for a clean stop after the stop file was written; a trainer saves a checkpoint in it.
        terminate_s: between SIGTERM and SIGKILL.
    """

    heartbeat_s: float
    stop_s: float = 120.0
    terminate_s: float = 10.0


class Role(Protocol):
    """What the supervisor needs of a started role; `launchers.local.RoleProcess` is one."""

    role: str

    def poll(self) -> int | None:
        """The exit status, None while it runs."""

    def signal(self, number: signal.Signals) -> None:
        """Signal everything the role started."""

    def error_tail(self) -> str:
        """The last lines of its error output."""


@dataclass
class Interrupts:
    """How often the supervisor was asked to stop by a signal."""

    count: int = 0

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Count them and live: Ctrl-C, SIGTERM, and a terminal that is closed (unless under nohup)."""
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        before = [signal.signal(number, self._count) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)

    def _count(self, _number: int, _frame: object) -> None:
        self.count += 1


@dataclass
class Supervisor:
    """Starts and follows the roles of one attempt.

    Args:
        starters: start one role each; the supervisor owns what they started and leaves nothing of it behind.
        on_tick: called twice a second, for the progress view.
    """

    run: RunDir
    attempt: int
    starters: Sequence[Callable[[], Role]]
    patience: Patience
    on_tick: Callable[[], None] = lambda: None
    interrupts: Interrupts = field(default_factory=Interrupts)
    roles: list[Role] = field(default_factory=list)
    _started: float = field(default_factory=time.monotonic)
    _last_beat: float = float("-inf")
    _said: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._view = Forgiving(self.on_tick)

    def follow(self) -> Outcome:
        """Start the roles, block until all have ended, and record how it went in the attempt's folder.

        Raises:
            OSError, RodsError: a role could not be started; those that were have been stopped, and it is recorded.
        """
        heartbeat = Heartbeat(self.run.heartbeats, SUPERVISOR)
        outcome = Outcome(Status.failed, "the supervisor failed; the run was stopped")
        try:
            with self.interrupts.caught():
                outcome = self._follow_roles(heartbeat)
        except Exception as error:
            outcome = Outcome(Status.failed, f"the supervisor failed: {type(error).__name__}: {error}")
            raise
        finally:
            self._record(outcome, heartbeat)
        return outcome

    def _follow_roles(self, heartbeat: Heartbeat) -> Outcome:
        reason = "the supervisor failed"
        try:
            for start in self.starters:
                self.roles.append(start())
            outcome = self._first_ending(heartbeat)
            reason = outcome.sentence.splitlines()[0]
            if outcome.status is Status.interrupted:
                say("stopping: the trainer saves a checkpoint first; another Ctrl-C ends both roles at once")
        finally:
            self._wind_down(heartbeat, reason)
        if stop.is_finished(self.run):
            return _although_finished(outcome)
        return outcome

    def _record(self, outcome: Outcome, heartbeat: Heartbeat) -> None:
        try:
            outcomes.record(self.run, self.attempt, outcome)
            heartbeat.finish(status=str(outcome.status))
        except OSError as error:
            say(f"how the run ended could not be recorded ({error}): {outcome.sentence}")

    def _first_ending(self, heartbeat: Heartbeat) -> Outcome:
        while (outcome := self._judge()) is None:
            self._tick(heartbeat)
        return outcome

    def _judge(self) -> Outcome | None:
        """What the first ending means for the run; None while nothing has ended."""
        if self.interrupts.count:
            return Outcome(
                Status.interrupted, "the run was interrupted by a signal; both roles were asked to stop"
            )
        for role in self.roles:
            code = role.poll()
            if code is not None:
                outcome = self._judge_ended(role, code)
                if outcome is not None:
                    return outcome
        return self._judge_silence()

    def _judge_ended(self, role: Role, code: int) -> Outcome | None:
        if code and not (code == STOPPED_EARLY and role.role == TRAIN):
            return Outcome(
                Status.failed, f"the role {role.role} {_ended(code)}; the run was stopped{_tail(role)}"
            )
        if role.role != TRAIN:
            if stop.is_requested(self.run, self.attempt):
                return None  # it obeyed first; the trainer is still saving
            return Outcome(
                Status.failed,
                f"the role {role.role} ended before the trainer; the run was stopped{_tail(role)}",
            )
        if not code:
            return Outcome(Status.finished, "the run finished")
        request = stop.read(self.run)
        reason = request.reason if request else "the trainer ended before the end of the run"
        return Outcome(Status.stopped, f"the run was stopped before its end: {reason}")

    def _judge_silence(self) -> Outcome | None:
        up = time.monotonic() - self._started
        try:
            beats = read_all(self.run.heartbeats)
        except (OSError, RodsError, TypeError) as error:
            self._say_once(f"the roles' heartbeats cannot be read: {error}")
            return None
        for role in self.roles:
            # A beat of an earlier attempt is older than this attempt.
            silent = min(beats[role.role].age_s if role.role in beats else up, up)
            if silent > self.patience.heartbeat_s and role.poll() is None:
                return Outcome(
                    Status.failed,
                    f"the role {role.role} gave no heartbeat for {silent:.0f} s "
                    f"(launch.heartbeat_timeout_s = {self.patience.heartbeat_s:g}); "
                    f"the run was stopped{_tail(role)}",
                )
        return None

    def _wind_down(self, heartbeat: Heartbeat, reason: str) -> None:
        """Give the roles time to stop cleanly, then end them. A second signal ends them at once."""
        try:
            self._ask_to_stop(reason)
            allowed = self.interrupts.count + 1
            steps = ((None, self.patience.stop_s), (signal.SIGTERM, self.patience.terminate_s))
            for number, seconds in steps:
                if number is not None:
                    self._signal_running(number)
                deadline = time.monotonic() + seconds
                while self._running() and self.interrupts.count < allowed and time.monotonic() < deadline:
                    self._tick(heartbeat)
        finally:
            self._kill_all()

    def _ask_to_stop(self, reason: str) -> None:
        """Through the stop file; by a signal where it cannot be written."""
        try:
            stop.request(self.run, self.attempt, reason)
        except OSError as error:
            say(f"the stop file cannot be written ({error}); the roles are sent SIGTERM instead")
            self._signal_running(signal.SIGTERM)

    def _kill_all(self) -> None:
        self._signal_running(signal.SIGKILL)
        deadline = time.monotonic() + _KILL_S
        while self._running() and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def _running(self) -> list[Role]:
        return [role for role in self.roles if role.poll() is None]

    def _signal_running(self, number: signal.Signals) -> None:
        for role in self._running():
            role.signal(number)

    def _tick(self, heartbeat: Heartbeat) -> None:
        if time.monotonic() - self._last_beat > _BEAT_EVERY_S:
            self._last_beat = time.monotonic()
            heartbeat.beat("following", attempt=self.attempt)
        self._view.tick()
        time.sleep(POLL_S)

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            say(sentence)


def _although_finished(outcome: Outcome) -> Outcome:
    """A trainer that came to its end while the run was being stopped has done all that was asked for."""
    if outcome.status in (Status.finished, Status.interrupted):
        return Outcome(Status.finished, "the run finished")
    return Outcome(Status.finished, f"the run finished, although {outcome.sentence}")


def _ended(code: int) -> str:
    """An exit status in words; 128 + n is how a death by signal n is told."""
    try:
        return f"was killed by {signal.Signals(code - 128).name}"
    except ValueError:
        return f"ended with exit code {code}"


def _tail(role: Role) -> str:
    tail = role.error_tail()
    return f". Last lines of its error output:\n{tail}" if tail else " (it wrote no error output)"
