"""What the commands share: which run is meant, and how a damaged one is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from rods.errors import RodsError

LATEST = "latest"
DAMAGED = 2  # exit status of a command that could not read all of a run
POLL_S = 1.0  # between two looks at a run that is followed
RUNS = Path("runs")
_RUN_HELP = "A run directory, the name of one under ./runs or its beginning, or 'latest' (the newest there)."
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help=_RUN_HELP)]


def flag(*names: str, help: str) -> Any:
    """An option that takes no value. Typer would show <bool> beside it, as if it took one."""
    return typer.Option(*names, metavar="", help=help)


class UsageError(RodsError):
    """A command that names something that is not there."""


class DamagedRunError(RodsError):
    """A run whose files are not what its roles write."""


def find_run(run: str) -> Path:
    """The path that RUN means: a path that is there, else a run under ./runs, by its name or its beginning.

    Raises:
        UsageError: "latest" where there is no run, a name that no run begins with, or a beginning that several have.
    """
    if run == LATEST:
        return _newest()
    if Path(run).exists() or "/" in run:
        return Path(run)
    found = _begun(run)
    exact = [path for path in found if path.name == run]
    if len(exact or found) > 1:
        raise UsageError(
            f"RUN = {run}: expected one run, found {len(found)} under {RUNS} that begin so: "
            f"{', '.join(path.name for path in found[:5])}{' …' if len(found) > 5 else ''}; give more of the name"
        )
    if not found:
        raise UsageError(
            f"RUN = {run}: no run under {RUNS} begins so, and it is no path; see rods ls, or give the run's path"
        )
    return (exact or found)[0]


def begins_a_run(name: str) -> bool:
    """Whether a run under ./runs has this name, or one that begins so."""
    return bool(_begun(name))


def _begun(name: str) -> list[Path]:
    return sorted(
        path.parent for path in RUNS.glob("[!.]*/manifest.json") if path.parent.name.startswith(name)
    )


def _newest() -> Path:
    candidates = [path.parent for path in RUNS.glob("[!.]*/manifest.json")]
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
