"""Makes the runs that are missing: some at a time, each on a core of its own, interrupted and continued at will."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Protocol

from benchmarks.study.job import StudyError
from rods.errors import RodsError
from rods.exchange.atomic import make_dirs

_POLL_S = 0.5
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Site(Protocol):
    """A run to make; `benchmarks.study.job.Site` is one."""

    @property
    def name(self) -> str:
        """For people."""

    @property
    def finished(self) -> bool:
        """Whether it came to its end."""

    @property
    def output(self) -> Path:
        """What it said."""

    def start(self, inherited: int) -> subprocess.Popen[bytes]:
        """Start or continue it; SIGINT interrupts it. Its process keeps the file descriptor `inherited`."""

    def took(self, seconds: float, load: float) -> None:
        """It ran for so long, under this load average."""

    def keep(self) -> Path:
        """It is finished: keep what it came to."""


@dataclass(frozen=True)
class _Running:
    site: Site
    process: subprocess.Popen[bytes]
    core: int
    started: float
    load: float


class Driver:
    """Makes runs under one folder.

    Args:
        folder: of the runs and their data; one driver at a time works in it.
        jobs: runs at once, each on a core of its own while there are enough.
        hours: after so long runs under way are interrupted; they are continued next time.
        say: told what happens.

    Attributes:
        asked: whether a signal asked it to stop.
    """

    def __init__(self, folder: Path, jobs: int, hours: float, say: Callable[[str], None]) -> None:
        self._folder, self._say = folder, say
        cores = sorted(os.sched_getaffinity(0))
        self._free = [cores[number % len(cores)] for number in range(jobs)]
        self._deadline = time.monotonic() + 3600 * hours
        self._running: list[_Running] = []
        self._failed = 0
        self.asked = False

    def run(self, sites: Sequence[Site]) -> int:
        """Make these runs, in order; the number of those that failed.

        Raises:
            StudyError: another driver, or a run that one left behind, works in this folder.
        """
        make_dirs(self._folder)
        waiting = deque(sites)
        with self._alone() as lock, self._interruptible():
            while self._running or (waiting and not self._over):
                while waiting and self._free and not self._over:
                    self._begin(waiting.popleft(), lock)
                if self._over and self._running:
                    self._interrupt()
                self._settle()
        if waiting:
            self._say(f"stopped; {len(waiting)} runs were not begun")
        return self._failed

    @property
    def _over(self) -> bool:
        return self.asked or time.monotonic() > self._deadline

    def _begin(self, site: Site, lock: int) -> None:
        with self._blamed(site):
            if site.finished:
                self._keep(site)
                return
            process = site.start(lock)
            core = self._free.pop(0)
            os.sched_setaffinity(process.pid, {core})
            self._running.append(_Running(site, process, core, time.monotonic(), os.getloadavg()[0]))
            self._say(f"{site.name}: begun on core {core}")

    def _settle(self) -> None:
        """Wait a little, and see to the runs that ended."""
        time.sleep(_POLL_S)
        ended = [each for each in self._running if each.process.poll() is not None]
        for each in ended:
            self._running.remove(each)
            self._free.append(each.core)
            with self._blamed(each.site):
                self._conclude(each)

    def _conclude(self, ended: _Running) -> None:
        site = ended.site
        site.took(time.monotonic() - ended.started, (ended.load + os.getloadavg()[0]) / 2)
        if site.finished:
            self._keep(site)
        elif self._over:
            self._say(f"{site.name}: interrupted")
        else:
            self._fail(site, f"ended with status {ended.process.returncode}; see {site.output}")

    def _keep(self, site: Site) -> None:
        self._say(f"{site.name}: finished, {site.keep()}")

    @contextmanager
    def _blamed(self, site: Site) -> Iterator[None]:
        """What is wrong with one run's files, or the disk, fails that run; the others, under way, are seen to."""
        try:
            yield
        except (RodsError, OSError) as error:
            self._fail(site, str(error))

    def _fail(self, site: Site, why: str) -> None:
        self._failed += 1
        self._say(f"{site.name}: failed: {why}")

    def _interrupt(self) -> None:
        """Ask what runs to stop, once; it writes a checkpoint first."""
        self._say(f"interrupting {len(self._running)} runs; each ends its step and writes a checkpoint")
        for each in self._running:
            if each.process.poll() is None:
                each.process.send_signal(signal.SIGINT)
        while any(each.process.poll() is None for each in self._running):
            time.sleep(_POLL_S)

    @contextmanager
    def _alone(self) -> Iterator[int]:
        """The folder's lock. Runs inherit it, so that one whose driver was killed keeps the next driver out."""
        with (self._folder / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise StudyError(
                    f"{self._folder}: another driver works here, or a run that one left behind; wait for it, or give "
                    "another --dir"
                ) from error
            yield file.fileno()

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        before = [signal.signal(number, self._ask) for number in _SIGNALS]
        try:
            yield
        finally:
            for number, handler in zip(_SIGNALS, before, strict=True):
                signal.signal(number, handler)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
