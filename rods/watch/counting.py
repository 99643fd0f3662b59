"""How far a dataset is: one line that is written over on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from typing import Protocol, TextIO

from rods.watch.render import duration

_TERMINAL_S, _ELSEWHERE_S = 0.2, 10.0


class Counts(Protocol):
    """What is counted: variants so far, those wanted, requests finished."""

    @property
    def accepted(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def requests(self) -> int: ...


class Counting:
    """Says how far a dataset is, with the pace of this process.

    Args:
        stream: where to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._terminal = stream, stream.isatty()
        self._first: tuple[float, int] | None = None
        self._due = 0.0

    def tell(self, now: Counts) -> None:
        """Write a line, if one is due or this is the last."""
        at = time.monotonic()
        last = now.accepted >= now.count
        if self._first is None:
            self._first = (at, now.accepted)
        if at < self._due and not last:
            return
        self._due = at + (_TERMINAL_S if self._terminal else _ELSEWHERE_S)
        text = self._line(now, at)
        end = "\n" if last or not self._terminal else ""
        self._stream.write(f"\r\x1b[K{text}{end}" if self._terminal else f"{text}{end}")
        self._stream.flush()

    def _line(self, now: Counts, at: float) -> str:
        assert self._first is not None
        begun, before = self._first
        made = now.accepted - before
        left = duration((at - begun) * (now.count - now.accepted) / made) if made > 0 else "unknown"
        rate = f"{now.accepted / now.requests:.0%} of {now.requests} requests"
        return f"{min(now.accepted, now.count)}/{now.count} variants · {rate} accepted · {left} left"
