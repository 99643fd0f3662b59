"""The file server's idea of now.

Nodes disagree about the time, and so ages are never taken from a node's clock: the mtime of a file is
compared with the mtime of a probe file touched in the same folder, so that one clock stamps both.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from rods.exchange.atomic import FILE_MODE
from rods.exchange.pressure import attempt


def now(folder: Path) -> float:
    """Seconds since the epoch as the server of `folder` stamps files at this moment.

    Raises:
        OSError: the folder is missing or read-only.
    """
    return attempt(lambda: _now(folder / f".probe-{secrets.token_hex(8)}"), folder)


def _now(probe: Path) -> float:
    descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        # The same call as a lease's renewal: "now" is filled in by whoever stamps those.
        os.utime(descriptor)
        return os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)
        probe.unlink(missing_ok=True)
