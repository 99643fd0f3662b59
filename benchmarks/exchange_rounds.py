"""One round of `benchmarks.exchange`: real processes put and take, are killed perhaps, and what became of it."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from benchmarks.exchange_systems import TORN, System

_HUNG_S = 30.0
# In rounds with kills a message takes this long to work on, so that workers die with deliveries in hand.
_WORK_S = 0.002
_fork = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Tally:
    """What became of the messages.

    Attributes:
        lost: whose put had returned, and whose effect was never applied, not even after recovery.
        duplicated: effects applied beyond the first of their message.
        torn: deliveries that were no whole message.
        failed: workers that ended with an error or hung; none of those killed on purpose.
        reason: the first error.
    """

    lost: int
    duplicated: int
    torn: int
    failed: int = 0
    reason: str = ""


def tally(put: Iterable[str], applied: Iterable[str]) -> Tally:
    """Count by the keys whose put returned and those whose effect was applied, once per effect."""
    effects = Counter(applied)
    torn = effects.pop(TORN, 0)
    lost = set(put) - effects.keys()
    return Tally(len(lost), sum(count - 1 for count in effects.values()), torn)


@dataclass(frozen=True)
class Round:
    """Figures of one round: messages per second, and the count."""

    put: float
    getack: float
    tally: Tally


@dataclass(frozen=True)
class _Phase:
    """What the workers of a phase left in its folder."""

    keys: list[str]
    seconds: float
    errors: list[str]

    @property
    def rate(self) -> float:
        return len(self.keys) / self.seconds if self.seconds > 0 else 0.0


class Worker:
    """One process of a phase; says what it did in files, which outlive a kill -9."""

    def __init__(self, folder: Path, number: int) -> None:
        self._log = os.open(folder / f"{number}.keys", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._end = folder / f"{number}.end"

    def log(self, keys: Sequence[str]) -> None:
        """These were put, or applied."""
        os.write(self._log, "".join(f"{key}\n" for key in keys).encode())

    def run(self, system: Callable[[], System], work: Work, start: Callable[[], Any]) -> None:
        """Open the queue, wait for the others, work; note from when to when, and the error that ended it."""
        began, error = 0.0, ""
        try:
            opened = _open_and_wait(system, start)
            began = time.monotonic()
            work(opened, self)
        except Exception as failure:  # noqa: BLE001 - whatever a queue raises is a result here
            error = f"{type(failure).__name__}: {failure}".replace("\n", " ")
        ended = time.monotonic()
        # By a rename, since a kill may come at any moment.
        draft = self._end.with_suffix(".draft")
        draft.write_text(f"{began or ended} {ended} {error}", encoding="utf-8")
        draft.rename(self._end)


Work = Callable[[System, Worker], None]


def _open_and_wait(system: Callable[[], System], start: Callable[[], Any]) -> System:
    try:
        return system()
    finally:
        # The others wait for this process, also when it fails.
        start()


def play(kind: type[System], folder: Path, keys: Sequence[str], processes: int, kill: bool) -> Round:
    """Put `keys` and take them all, each with so many processes; with `kill`, -9 of all of them half-way."""
    home = folder / "queue"
    home.mkdir(parents=True)

    def phase(name: str, works: Sequence[Work], kill_at: int | None = None) -> _Phase:
        return _phase(folder / name, lambda: kind(home), works, kill_at)

    made = phase("make", [lambda system, worker: None])
    shares = [keys[number::processes] for number in range(processes)]
    put = phase("put", [_putter(share) for share in shares], len(keys) // 2 if kill else None)
    taker = _taker(_WORK_S if kill else 0.0)
    taken = phase("take", [taker] * processes, len(put.keys) // 2 if kill else None)
    rest = phase("rest", [_recover])
    errors = [error for one in (made, put, taken, rest) for error in one.errors]
    counted = tally(put.keys, taken.keys + rest.keys)
    reason = errors[0] if errors else ""
    return Round(put.rate, taken.rate, replace(counted, failed=len(errors), reason=reason))


def _putter(keys: Sequence[str]) -> Work:
    def work(system: System, worker: Worker) -> None:
        for start in range(0, len(keys), system.per_put):
            chunk = keys[start : start + system.per_put]
            system.put(chunk)
            worker.log(chunk)

    return work


def _taker(pause: float) -> Work:
    return lambda system, worker: _take_all(system, worker, pause)


def _recover(system: System, worker: Worker) -> None:
    system.recover()
    _take_all(system, worker, 0.0)


def _take_all(system: System, worker: Worker, pause: float) -> None:
    while (delivery := system.take()) is not None:
        ticket, keys = delivery
        for key in keys:
            time.sleep(pause)
            worker.log([key])
        system.ack(ticket)


def _phase(folder: Path, system: Callable[[], System], works: Sequence[Work], kill_at: int | None) -> _Phase:
    """Run the works at once, each in a process; kill them when `kill_at` keys are logged."""
    folder.mkdir()
    barrier = _fork.Barrier(len(works))
    processes = [
        _fork.Process(target=Worker(folder, number).run, args=(system, work, barrier.wait))
        for number, work in enumerate(works)
    ]
    for process in processes:
        process.start()
    stopped = _stop(processes, lambda: kill_at is not None and len(_logged(folder)) >= kill_at)
    ends = [file.read_text(encoding="utf-8").split(" ", 2) for file in folder.glob("*.end")]
    errors = [error for _, _, error in ends if error]
    if kill_at is None:
        errors += [f"hung for {_HUNG_S:g} s"] * stopped
    if not ends:
        return _Phase(_logged(folder), 0.0, errors)
    seconds = max(float(end) for _, end, _ in ends) - min(float(began) for began, _, _ in ends)
    return _Phase(_logged(folder), seconds, errors)


def _stop(processes: Sequence[BaseProcess], kill_now: Callable[[], bool]) -> int:
    """Wait for all to end; kill -9 those that are left when `kill_now` says so, or that hang. How many?"""
    deadline = time.monotonic() + _HUNG_S
    while any(process.is_alive() for process in processes) and time.monotonic() < deadline:
        if kill_now():
            break
        time.sleep(0.001)
    left = [process for process in processes if process.is_alive()]
    for process in left:
        process.kill()
    for process in processes:
        process.join()
    return len(left)


def _logged(folder: Path) -> list[str]:
    return [key for file in folder.glob("*.keys") for key in file.read_text(encoding="utf-8").split()]
