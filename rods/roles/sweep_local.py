"""The runs of a sweep on this machine: all frozen before the first starts, then so many at once.

Each run has a supervisor process of its own, as a run in the background has. Run as a module, this is the process
that stays in the background for launch.mode=submit: `python -m rods.roles.sweep_local AT_ONCE RUN...`.
"""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from launchers.sweep import Point
from launchers.sweep_table import GOOD, Result, State, results
from launchers.terminal import FAILED, INTERRUPTED, show
from rods.config import LaunchMode
from rods.errors import RodsError
from rods.exchange import owner
from rods.exchange.rundir import RunDir
from rods.roles import launching, outcome
from rods.roles.supervisor import Interrupts
from rods.watch.render import line
from rods.watch.state import read_state

POLL_S = 0.5
_TELL_EVERY_S = 15.0


@dataclass(frozen=True)
class Ended:
    """How one run went: its state, and what its supervisor said of it."""

    state: State
    sentence: str


@dataclass
class Line:
    """The runs that wait and those that run.

    Args:
        runs: to be run, in order.
        at_once: how many run at the same time.
        interrupts: one asks the running ones to stop cleanly and starts no more; a second one ends them.
    """

    runs: Sequence[RunDir]
    at_once: int
    interrupts: Interrupts = field(default_factory=Interrupts)
    _running: dict[str, tuple[RunDir, int, subprocess.Popen[bytes]]] = field(default_factory=dict)
    _ended: dict[str, Ended] = field(default_factory=dict)
    _told_at: float = field(default_factory=time.monotonic)

    def follow(self) -> dict[str, Ended]:
        """Block until every run has ended or will not be started; by the run's name, how it went."""
        waiting, told = deque(self.runs), 0
        with self.interrupts.caught():
            while self._running or (waiting and not self.interrupts.count):
                while waiting and len(self._running) < self.at_once and not self.interrupts.count:
                    self._start(waiting.popleft())
                if told < self.interrupts.count:
                    told = self.interrupts.count
                    self._interrupt()
                self._collect()
                self._tell()
                time.sleep(POLL_S)
        self._ended |= {run.name: Ended(State.not_started, "the sweep was interrupted") for run in waiting}
        return self._ended

    def _start(self, run: RunDir) -> None:
        try:
            owner.take(run, owner.DEFAULT_TIMEOUT_S)
            attempt = run.next_attempt()
            self._running[run.name] = (run, attempt, launching.start_supervisor(run, attempt))
            show(f"started  {run.path}")
        except (RodsError, OSError) as error:
            self._end(run, Ended(State.failed, str(error)))

    def _interrupt(self) -> None:
        show("stopping: each run saves a checkpoint first; another Ctrl-C ends all at once")
        for _, _, process in self._running.values():
            process.send_signal(signal.SIGINT)

    def _tell(self) -> None:
        """How far each running one has come, now and then."""
        if time.monotonic() - self._told_at < _TELL_EVERY_S:
            return
        self._told_at = time.monotonic()
        for run, _, _ in self._running.values():
            show(_standing(run))

    def _collect(self) -> None:
        for run, attempt, process in list(self._running.values()):
            status = process.poll()
            if status is not None:
                del self._running[run.name]
                self._end(run, _how_it_went(run, attempt, status))

    def _end(self, run: RunDir, ended: Ended) -> None:
        self._ended[run.name] = ended
        show(f"{ended.state}  {run.path}  {ended.sentence}".rstrip())


def _standing(run: RunDir) -> str:
    """A line with its step and reward; why there is none, where a part of the run cannot be read."""
    try:
        return f"{run.name}  {line(read_state(run))}"
    except (RodsError, OSError, ValueError, KeyError, TypeError) as error:
        return f"{run.name}  cannot be read: {error}"


def _how_it_went(run: RunDir, attempt: int, status: int) -> Ended:
    """From the supervisor's record; from its exit status where it left none."""
    record = outcome.read(run, attempt)
    if record is None and status in (-signal.SIGINT, INTERRUPTED):
        return Ended(State.stopped, "interrupted before its roles started")
    if record is None:
        log = launching.supervisor_log(run, attempt)
        return Ended(State.failed, f"its supervisor ended with status {status} and left no record; see {log}")
    if record.status is outcome.Status.finished:
        return Ended(State.finished, "")
    stopped = record.status in (outcome.Status.stopped, outcome.Status.interrupted)
    return Ended(State.stopped if stopped else State.failed, record.sentence.splitlines()[0])


def start(points: Sequence[Point]) -> int:
    """Freeze every point's run, then run them (or, with launch.mode=submit, leave that to a process of its own)."""
    found = _freeze_all(points)
    runs = [RunDir(one.path) for one in found if one.path]
    at_once = points[0].config.launch.max_parallel or 1
    if points[0].config.launch.mode is LaunchMode.submit:
        _detach(runs, at_once)
        show(results(found))
        return _status(found)
    line = Line(runs, at_once)
    ended = line.follow()
    found = [_with(one, ended) for one in found]
    show(results(found))
    return INTERRUPTED if line.interrupts.count else _status(found)


def _freeze_all(points: Sequence[Point]) -> list[Result]:
    sweep = secrets.token_hex(4)
    found: list[Result] = []
    first = None
    for point in points:
        try:
            run = launching.create(point.config, point.plan, list(point.overrides), first)
            first = first or run
            run.update_manifest(sweep={"id": sweep, "run": point.number, "of": len(points)})
            owner.release(run)  # whoever starts it takes it
            found.append(Result(point, State.queued, run.path))
        except (RodsError, OSError) as error:
            found.append(Result(point, State.failed, reason=" ".join(str(error).split())))
    return found


def _with(one: Result, ended: dict[str, Ended]) -> Result:
    if one.path is None:
        return one
    how = ended[one.path.name]
    return replace(one, state=how.state, reason=how.sentence)


def _detach(runs: Sequence[RunDir], at_once: int) -> None:
    if not runs:
        return
    log = runs[0].path / "sweep.out"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "rods.roles.sweep_local", str(at_once), *(str(run.path) for run in runs)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    show(f"{len(runs)} runs in the background, {at_once} at once (process {process.pid}, log {log})")
    show(f"stop them all: kill {process.pid}")


def _status(found: Sequence[Result]) -> int:
    return 0 if all(one.state in GOOD for one in found) else FAILED


if __name__ == "__main__":
    how = Line([RunDir.open(Path(path)) for path in sys.argv[2:]], int(sys.argv[1])).follow()
    sys.exit(0 if all(one.state is State.finished for one in how.values()) else FAILED)
