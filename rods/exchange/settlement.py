"""Taking a batch apart: its messages go different ways, and yet one rename decides.

The messages are first written to tmp/ as parts, each a file of its own whose name says where it belongs. Then
the batch itself is renamed to tmp/<token>.settle: this is the fence, won by one process. From then on the
parts with this token count, and anybody moves them to their places, in any order, again after a crash. Before
it they mean nothing, so that a worker that froze in between leaves only litter. Litter is swept.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rods.exchange import atomic, names
from rods.exchange.atomic import fsync_dir, write_new
from rods.exchange.names import PartName
from rods.exchange.spool import Spool


@dataclass(frozen=True)
class Part:
    """One message of a batch and its new place.

    Attributes:
        state: the folder.
        name: its name there.
        source: its bytes, or a file that becomes it as it is (by a hard link).
    """

    state: str
    name: str
    source: bytes | Path


def split(spool: Spool, batch: Path, parts: Sequence[Part]) -> None:
    """Replace `batch` by `parts`, durably, or leave everything as it is.

    Raises:
        FileNotFoundError: the batch is not there: somebody else was faster. Nothing was changed.
        OSError: before the fence nothing was changed; after it the rest is done by `finish_all`.
    """
    token = names.token()
    named = [(PartName(token, part.state, part.name), part.source) for part in parts]
    try:
        for name, source in named:
            _prepare(spool.tmp / str(name), source)
        fsync_dir(spool.tmp)
        # Its age in tmp/ counts from here.
        os.utime(batch, follow_symlinks=False)
    except OSError:
        _discard(spool, [name for name, _ in named])
        raise
    try:
        atomic.rename(batch, spool.tmp / names.settle_name(token))
    except FileNotFoundError:
        # After any other error the rename may have been done: only then the parts must stay.
        _discard(spool, [name for name, _ in named])
        raise
    fsync_dir(spool.tmp)
    _finish(spool, [name for name, _ in named])
    _remove(spool.tmp / names.settle_name(token))


def finish_all(spool: Spool, entries: Sequence[str]) -> None:
    """Move the parts of batches whose fence was passed; `entries` is a listing of tmp/."""
    parts = [part for part in map(PartName.parse, entries) if part is not None]
    _finish(spool, [part for part in parts if is_settled(spool, part.token)])


def is_settled(spool: Spool, token: str) -> bool:
    """Whether the batch taken apart under `token` has passed its fence and is not yet forgotten."""
    return os.path.lexists(spool.tmp / names.settle_name(token))


def _prepare(path: Path, source: bytes | Path) -> None:
    if isinstance(source, bytes):
        write_new(path, source)
    else:
        os.link(source, path, follow_symlinks=False)


def _finish(spool: Spool, parts: Sequence[PartName]) -> None:
    for part in parts:
        # Another process may finish the same settlement.
        with contextlib.suppress(FileNotFoundError):
            atomic.rename(spool.tmp / str(part), spool.state(part.state) / part.name)
    for state in sorted({part.state for part in parts}):
        fsync_dir(spool.state(state))


def _discard(spool: Spool, parts: Sequence[PartName]) -> None:
    for part in parts:
        (spool.tmp / str(part)).unlink(missing_ok=True)


def _remove(path: Path) -> None:
    # A folder put in a batch's place by hand stays: it is no message, and its contents are not ours.
    with contextlib.suppress(FileNotFoundError, IsADirectoryError):
        path.unlink()
