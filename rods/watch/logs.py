"""What the processes of a run wrote: which files there are, and what is added to them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rods.exchange.rundir import RunDir

_ENDINGS = (".out", ".err", ".log")


@dataclass(frozen=True, order=True)
class Log:
    """One file that a process writes.

    Attributes:
        attempt: the start that it belongs to, counted within `series`.
        series: "" for the run's own attempts, else a job's of its own ("synthesis-1").
        stem: the file's name without its ending: the role, with the number of a daemon or of a job.
    """

    attempt: int
    series: str
    stem: str
    path: Path

    @property
    def label(self) -> str:
        """Attempt and name, for a heading."""
        return str(self.path.relative_to(self.path.parents[2 if self.series else 1]))


def find(run: RunDir) -> list[Log]:
    """Every log of the run, by attempt."""
    own = (path for path in run.attempts.glob("[0-9]*/*") if path.suffix in _ENDINGS)
    others = (path for path in run.attempts.glob("[!0-9]*/[0-9]*/*") if path.suffix in _ENDINGS)
    logs = [Log(int(path.parent.name), "", path.stem, path) for path in own if path.parent.name.isdigit()]
    logs += [
        Log(int(path.parent.name), path.parents[1].name, path.stem, path)
        for path in others
        if path.parent.name.isdigit()
    ]
    # Output before error output, as a terminal would have had them.
    return sorted(logs, key=lambda log: (log.attempt, log.series, log.stem, _ENDINGS.index(log.path.suffix)))


def of_role(logs: Iterable[Log], role: str) -> list[Log]:
    """Those of `role`: its own, of all its daemons ("synthesis-1"), of the batch script that started it."""
    return [log for log in logs if log.stem == role or log.stem.startswith((f"{role}-", f"{role}."))]


def names(logs: Iterable[Log]) -> list[str]:
    """What can be asked for: the stems, "slurm" for what batch scripts print."""
    return sorted({re.sub(r"^slurm-\d+$", "slurm", log.stem) for log in logs})


def newest(logs: Iterable[Log]) -> list[Log]:
    """Of each series those of its newest attempt."""
    found = list(logs)
    last = {log.series: log.attempt for log in sorted(found)}
    return [log for log in found if log.attempt == last[log.series]]


class Follower:
    """Gives what is added to files, line by line.

    A file that appears late is read from its beginning, and so is one that was replaced or cut. A half line waits
    for its end until the next look, then it is given as it is.
    """

    def __init__(self) -> None:
        self._seen: dict[Path, _Seen] = {}

    def news(self, path: Path, *, hold: bool = True) -> bytes:
        """What `path` holds beyond what was given before; nothing of a file that is not there.

        Args:
            hold: keep a half line back until the next look.
        """
        try:
            with path.open("rb") as stream:
                status = os.fstat(stream.fileno())
                seen = self._seen.get(path)
                if seen is None or seen.inode != status.st_ino or status.st_size < seen.offset:
                    seen = self._seen[path] = _Seen(status.st_ino)
                stream.seek(seen.offset)
                return seen.take(stream.read(), hold)
        except FileNotFoundError:
            return b""


@dataclass
class _Seen:
    """How much of a file was given; `half` bytes of an unended line were held back at the last look."""

    inode: int
    offset: int = 0
    half: int = 0

    def take(self, data: bytes, hold: bool) -> bytes:
        whole = data.rfind(b"\n") + 1
        rest = len(data) - whole
        waited = not whole and rest == self.half
        given = data[:whole] if hold and not waited else data
        self.offset += len(given)
        self.half = len(data) - len(given)
        return given


def last_lines(data: bytes, count: int | None) -> bytes:
    """The last `count` lines; all of them for None."""
    return data if count is None else b"".join(data.splitlines(keepends=True)[-count:] if count else [])
