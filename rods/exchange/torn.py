"""What a killed writer left at the end of its file is set aside: kept for a person, out of readers' way."""

from __future__ import annotations

import os
from pathlib import Path

from rods.exchange.atomic import FILE_MODE, fsync_dir, write_fully


def set_tail_aside(path: Path, end: int) -> tuple[Path | None, int]:
    """Cut `path` after byte `end`; what was behind it is appended to <path>.torn, durably, before the cut.

    Only for the one writer of `path`. A crash between the two steps leaves the tail in both files.

    Returns:
        the side file and the number of bytes; (None, 0) when nothing lay behind `end`.
    """
    with path.open("r+b") as stream:
        stream.seek(end)
        tail = stream.read()
        if not tail:
            return None, 0
        aside = path.with_name(path.name + ".torn")
        _append(aside, tail)
        stream.truncate(end)
        os.fsync(stream.fileno())
    return aside, len(tail)


def _append(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, FILE_MODE)
    try:
        write_fully(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    fsync_dir(path.parent)
