"""What a launch tells the person who typed it: text, and an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

import yaml
from hydra.errors import HydraException

from rods.errors import RodsError

FAILED, REFUSED, INTERRUPTED = 1, 2, 130


def exit_status(action: Callable[[], int]) -> int:
    """The status of `action`; a refusal is one message on standard error, an interruption none."""
    try:
        return action()
    except KeyboardInterrupt:
        return INTERRUPTED
    except (RodsError, OSError, yaml.YAMLError, HydraException) as error:
        print(f"launch.py: {error}", file=sys.stderr)
        return REFUSED


def show(text: str) -> None:
    """Print to standard output at once; its reader (head, less) may have seen enough."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # What is still buffered would fail once more when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equal length as lines with aligned columns; never cut or wrapped, so that they can be copied."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
