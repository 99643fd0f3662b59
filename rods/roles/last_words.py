"""What a process does when it ends in the middle of its work, because its main thread hangs where nothing can raise.

A thread that finds this out (a rank was lost, and the collective does not tell) cannot end the work in order. Whoever
runs the role says here what must still be done: how the attempt ended, and whether its job goes back into the queue.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from launchers.resources import TRAIN
from rods.roles.notice import Then

Say = Callable[[str, Then], None]


def _only_print(reason: str, _then: Then) -> None:
    print(f"{TRAIN}: {reason}", file=sys.stderr, flush=True)


_say: Say = _only_print


@contextmanager
def using(say: Say) -> Iterator[None]:
    """While it lasts `say` is called with the reason, and with what becomes of the job, before the process ends."""
    global _say  # of the process: the thread that ends it is started far below
    before, _say = _say, say
    try:
        yield
    finally:
        _say = before


def end(reason: str, then: Then) -> None:
    """Say it and end this process with status 1."""
    try:
        _say(reason, then)
    finally:
        os._exit(1)
