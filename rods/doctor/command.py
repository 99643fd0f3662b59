"""`rods doctor`: probe, print, and say by the exit status whether a run may start here."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from rods.config import ExchangeConfig, LaunchConfig
from rods.doctor import examine, show
from rods.doctor.finding import is_fit
from rods.doctor.stack import stack


def doctor(directory: Path | None, as_json: bool) -> int:
    """Examine `directory`; without one, the configured runs directory and the installation.

    Returns:
        0, or 1 when the directory (or the installation) is unfit for a run.
    """
    path = directory or Path(LaunchConfig().runs_dir)
    findings = examine.directory(path, ExchangeConfig())
    installed = [] if directory else stack()
    if as_json:
        print(json.dumps(show.to_json(str(path), findings, installed), indent=1, ensure_ascii=False))
    else:
        console = Console()
        show.table(f"directory {path}", findings, console)
        if installed:
            show.table("installation", installed, console)
    return 0 if is_fit([*findings, *installed]) else 1
