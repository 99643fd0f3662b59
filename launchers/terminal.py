"""What a launch tells the person who typed it: text, and an exit status."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml
from hydra.errors import HydraException

from rods import width
from rods.config.typed import explained
from rods.errors import RodsError

FAILED, REFUSED, INTERRUPTED = 1, 2, 130


def exit_status(action: Callable[[], int]) -> int:
    """The status of `action`; a refusal and an interruption are one message each on standard error."""
    width.settle()
    try:
        return action()
    except KeyboardInterrupt:
        print("launch.py: interrupted", file=sys.stderr)
        return INTERRUPTED
    except HydraException as error:
        print(f"launch.py: {explained(error)}", file=sys.stderr)
        return REFUSED
    except (RodsError, OSError, yaml.YAMLError) as error:
        print(f"launch.py: {error}", file=sys.stderr)
        return REFUSED


def launch_line(overrides: Sequence[str]) -> str:
    """What to type to launch with `overrides`: this Python and this launch.py, wherever the shell stands."""
    script = Path(__file__).parents[1] / "launch.py"
    return shlex.join([_from_here(Path(sys.executable)), _from_here(script), *overrides])


def _from_here(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


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
