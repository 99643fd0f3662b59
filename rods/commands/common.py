"""What the commands share: which run is meant, and how a damaged one is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from rods.errors import RodsError

LATEST = "latest"
POLL_S = 1.0  # between two looks at a run that is followed
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run directory, or 'latest' (newest under ./runs).")
]


class UsageError(RodsError):
    """A command that names something that is not there."""


class DamagedRunError(RodsError):
    """A run whose files are not what its roles write."""


def find_run(run: str) -> Path:
    """The path that RUN means.

    Raises:
        UsageError: "latest" where there is no run.
    """
    if run != LATEST:
        return Path(run)
    candidates = [path.parent for path in Path("runs").glob("*/manifest.json")]
    if not candidates:
        raise UsageError(
            "RUN = latest: expected a run under ./runs, found none; give the path that launch.py printed"
        )
    return max(candidates, key=lambda path: path.stat().st_ctime)


@contextmanager
def reading(directory: Path) -> Iterator[None]:
    """Files that are JSON or YAML, but not what the roles write, end in a message that names the run."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedRunError(
            f"{directory}: expected a run as its roles write it, found something else "
            f"({type(error).__name__}: {error}). A file there was damaged from outside; restore or remove it."
        ) from error
