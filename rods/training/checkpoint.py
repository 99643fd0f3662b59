"""Checkpoints that are whole or do not count.

`step_000040/` holds the learner's state (`model/`, random states), `extra.json` of the loop, and, written
last, `COMPLETE` with the size of every file. The newest complete one is found by looking, not by a pointer
file that could tear; what a crash left half-written is reported and ignored. A step saved once more goes to
`step_000040.1/`: nothing complete is touched before its successor is complete.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch.distributed as dist

from rods.errors import RodsError
from rods.exchange.atomic import CorruptFileError, read_json, write_json

_MARKER = "COMPLETE"
_EXTRA = "extra.json"
_NAME = re.compile(r"step_(?P<step>\d{6,})(?:\.(?P<save>\d+))?")
_log = logging.getLogger(__name__)


class CheckpointError(RodsError):
    """A folder that is not a complete checkpoint."""


class Saves(Protocol):
    """What a checkpoint needs of a learner."""

    rank: int

    def save(self, folder: Path) -> None:
        """Write the state below `folder`, on all ranks."""


@dataclass(frozen=True)
class Scan:
    """What lies in a checkpoints folder: complete ones by step, and torn ones with the reason."""

    complete: tuple[Path, ...]
    torn: tuple[tuple[Path, str], ...]


def save(root: Path, step: int, learner: Saves, extra: dict[str, Any], keep: int) -> Path:
    """Write the checkpoint of `step`, then remove all but the newest `keep`. Collective.

    A torn folder of the same step is replaced; beside a complete one the new one gets the next free number.

    Args:
        root: the run's checkpoints folder.
        step: training steps done.
        learner: its state goes into the folder.
        extra: the loop's own state, JSON data.
        keep: complete checkpoints that stay, at least 1.

    Returns:
        the checkpoint's folder.
    """
    folder = _free_folder(root, step)
    if learner.rank == 0 and folder.exists():
        _remove(folder)
    _wait_for_all()
    learner.save(folder)
    if learner.rank == 0:
        write_json(folder / _EXTRA, extra)
        sizes = {path.relative_to(folder).as_posix(): _flush(path) for path in _files(folder)}
        write_json(folder / _MARKER, {"step": step, "files": sizes})
        prune(root, keep)
    _wait_for_all()
    return folder


def latest(root: Path) -> Path | None:
    """The newest complete checkpoint, None without one; torn ones are logged as warnings."""
    found = scan(root)
    for folder, reason in found.torn:
        _log.warning("ignoring checkpoint %s: %s", folder, reason)
    return found.complete[-1] if found.complete else None


def read_extra(folder: Path) -> dict[str, Any]:
    """The loop's state from a complete checkpoint.

    Raises:
        CheckpointError: the folder is not complete.
    """
    reason = _flaw(folder)
    if reason:
        raise CheckpointError(f"checkpoint {folder}: {reason}; resume from another one")
    extra: dict[str, Any] = read_json(folder / _EXTRA)
    return extra


def scan(root: Path) -> Scan:
    """Look through `root`; anything not named like a checkpoint is left alone."""
    folders = [path for path in root.glob("step_*") if path.is_dir() and _NAME.fullmatch(path.name)]
    folders.sort(key=_age)
    flaws = [(folder, _flaw(folder)) for folder in folders]
    return Scan(
        tuple(folder for folder, flaw in flaws if flaw is None),
        tuple((folder, flaw) for folder, flaw in flaws if flaw is not None),
    )


def prune(root: Path, keep: int) -> list[Path]:
    """Remove complete checkpoints but the newest `keep` (at least 1); torn ones stay to be looked at.

    Returns:
        the folders removed.
    """
    old = list(scan(root).complete[: -max(keep, 1)])
    for folder in old:
        _remove(folder)
    return old


def _free_folder(root: Path, step: int) -> Path:
    """Where the step's next save goes: the first of step_N, step_N.1, … that holds no complete checkpoint."""
    name, save = f"step_{step:06d}", 0
    while _flaw(root / name) is None:
        save += 1
        name = f"step_{step:06d}.{save}"
    return root / name


def _age(folder: Path) -> tuple[int, int]:
    """Sorts checkpoints from the oldest to the newest: by step, then by the number of the save."""
    match = _NAME.fullmatch(folder.name)
    assert match is not None
    return int(match["step"]), int(match["save"] or 0)


def _flaw(folder: Path) -> str | None:
    """Why a checkpoint is not complete; None when it is."""
    marker = folder / _MARKER
    if not marker.is_file():
        return f"no {_MARKER} marker: its writing was cut short"
    try:
        sizes = dict(read_json(marker)["files"])
    except (CorruptFileError, KeyError, TypeError, ValueError):
        return f"its {_MARKER} marker is damaged"
    for name, size in sizes.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes, {size} were written"
    return None


def _remove(folder: Path) -> None:
    """The marker goes first: a removal cut short leaves a torn checkpoint, never a wrong one."""
    (folder / _MARKER).unlink(missing_ok=True)
    shutil.rmtree(folder)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _flush(path: Path) -> int:
    """Force a file to disk; its size in bytes."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size


def _wait_for_all() -> None:
    if dist.is_initialized() and dist.get_world_size() > 1:
        dist.barrier()
