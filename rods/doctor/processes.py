"""A second process for a probe: made by fork, deaf to the terminal's Ctrl-C, and never left behind."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from rods.errors import RodsError

_context = multiprocessing.get_context("fork")
_ANSWER_S = 60.0


class ProbeError(RodsError):
    """A probe's second process failed or gave no answer; the message says why."""


@contextmanager
def beside(*actions: Callable[[], Any]) -> Iterator[Callable[[], list[Any]]]:
    """Run each of `actions` in a process of its own during the block.

    Yields:
        a function that waits for what they return, in order. It raises ProbeError.
    """
    started: list[tuple[Any, Connection]] = []
    try:
        with _uninterrupted():
            started += [_start(action) for action in actions]
        yield lambda: [_answer(connection) for _, connection in started]
    finally:
        for process, connection in started:
            connection.close()
            process.kill()
            process.join()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the end of the block: a process whose start it cuts in two would never be ended."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def race(attempt: Callable[[int, int], None], rounds: int) -> Sequence[int]:
    """Two processes call `attempt(who, round)` at the same moment, `rounds` times; how often each one won.

    An attempt wins when it returns, and loses when it finds the thing taken or gone.
    """
    gate = _context.Barrier(2, timeout=_ANSWER_S)

    def run(who: int) -> int:
        wins = 0
        for number in range(rounds):
            gate.wait()
            try:
                attempt(who, number)
            except (FileExistsError, FileNotFoundError):
                continue
            wins += 1
        return wins

    with beside(lambda: run(0), lambda: run(1)) as answers:
        return answers()


def _start(action: Callable[[], Any]) -> tuple[Any, Connection]:
    mine, other = _context.Pipe()
    process = _context.Process(target=_child, args=(action, other), daemon=True)
    process.start()
    other.close()
    return process, mine


def _child(action: Callable[[], Any], connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        connection.send((True, action()))
    except OSError as error:
        connection.send((False, str(error)))


def _answer(connection: Connection) -> Any:
    if not connection.poll(_ANSWER_S):
        raise ProbeError(f"the second process gave no answer within {_ANSWER_S:g} s: the file system hangs")
    try:
        worked, value = connection.recv()
    except EOFError:
        raise ProbeError("the second process ended without an answer") from None
    if not worked:
        raise ProbeError(str(value))
    return value
