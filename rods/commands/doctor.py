"""`rods doctor`: may a run start here?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def doctor(
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Probe this directory; default: ./runs and the installation.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Probe a directory's file system (and the installation); exit 1 when a run would not be safe there."""
    from rods.doctor.command import doctor as examine

    raise typer.Exit(examine(directory, as_json))
