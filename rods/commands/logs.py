"""`rods logs`: what a role wrote."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from rods.commands.common import POLL_S, RunArgument, UsageError, find_run


def logs(
    run: RunArgument,
    role: Annotated[str, typer.Argument(help="train, synthesis or supervisor.")],
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Keep printing what is added.")] = False,
) -> None:
    """Print a role's output and error output, of the newest attempt."""
    from rods.exchange.rundir import RunDir

    directory = RunDir.open(find_run(run))
    folder = directory.attempt_dir(directory.last_attempt())
    paths = [path for path in (folder / f"{role}.out", folder / f"{role}.err") if path.exists()]
    if not paths:
        there = ", ".join(sorted({path.stem for path in folder.glob("*.out")})) or "none"
        raise UsageError(f"no log of role {role!r} in {folder}; there are: {there}")
    chunks = _tail(paths) if follow else (path.read_bytes() for path in paths)
    try:
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
    except KeyboardInterrupt:
        raise typer.Exit from None


def _tail(paths: list[Path]) -> Iterator[bytes]:
    """What is in the files and what is added to them, for ever."""
    with_files = [path.open("rb") for path in paths]
    while True:
        chunks = [chunk for chunk in (file.read() for file in with_files) if chunk]
        yield from chunks
        if not chunks:
            time.sleep(POLL_S)
