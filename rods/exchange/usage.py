"""What takes the space in a run directory: for the message that asks a person to free some."""

from __future__ import annotations

import os
from pathlib import Path

MANIFEST = "manifest.json"
_CANDIDATES = ("checkpoints", "rollouts", "wandb", "attempts")
_SHOWN = 4


def advice(path: Path) -> str:
    """One or two sentences: how much is free around `path`, and what of its run could go."""
    free = _free(path)
    root = run_root(path)
    large = largest(root) if root else []
    if not large:
        return f"{free} Remove what is not needed there, or raise the quota."
    listed = ", ".join(f"{folder} ({human(size)})" for folder, size in large[:_SHOWN])
    return (
        f"{free} What takes most space in this run: {listed}. Older checkpoints (all but the newest with a "
        "COMPLETE file) and rollouts can be removed; nothing reads them to go on."
    )


def largest(root: Path) -> list[tuple[Path, int]]:
    """Parts of the run at `root` that can be spared, the largest first, with their bytes on disk."""
    checkpoints = sorted((root / "checkpoints").glob("step_*"))
    parts = [*checkpoints, *(root / name for name in _CANDIDATES[1:])]
    sized = [(part, size(part)) for part in parts if part.is_dir()]
    return sorted([pair for pair in sized if pair[1]], key=lambda pair: -pair[1])


def run_root(path: Path) -> Path | None:
    """The run directory that `path` lies in; None outside of one."""
    return next((folder for folder in (path, *path.parents) if (folder / MANIFEST).is_file()), None)


def size(folder: Path) -> int:
    """Bytes that the files below `folder` take on disk; what vanishes meanwhile counts nothing."""
    return sum(_blocks(Path(parent) / name) for parent, _, names in os.walk(folder) for name in names)


def human(count: float) -> str:
    """Bytes for a person: 3.4 GB."""
    units = ["B", "kB", "MB", "GB", "TB"]
    while count >= 1000 and len(units) > 1:
        count /= 1000
        units.pop(0)
    return f"{count:.0f} B" if units[0] == "B" else f"{count:.1f} {units[0]}"


def _free(path: Path) -> str:
    """Free bytes and inodes of the file system, as far as this user may have them."""
    folder = next((folder for folder in (path, *path.parents) if folder.exists()), Path("/"))
    try:
        found = os.statvfs(folder)
    except OSError:
        return "How much is free cannot be read."
    space = f"On this file system: {human(found.f_bavail * found.f_frsize)} free"
    # Lustre and some others report no inodes at all.
    return f"{space}, {found.f_favail} inodes free." if found.f_files else f"{space}."


def _blocks(path: Path) -> int:
    try:
        return path.lstat().st_blocks * 512
    except OSError:
        return 0
