"""Which runs may be removed, and their removal: never one that lives, never a byte outside of the runs folder."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from launchers.scheduler import Scheduler
from rods.doctor.volume import MOUNTS, mounts_below
from rods.errors import RodsError
from rods.exchange import owner, usage
from rods.exchange.rundir import RunDir
from rods.watch.listing import Line, list_runs

_ENDED = ("finished", "failed")
_RESUMABLE = ("stopped", "interrupted")
_DAY_S = 86400.0
_REMOVED = re.compile(r"\.removed-.+-\d+")  # as `remove` names a run: the run's name and its own process


class RemovalError(RodsError):
    """What was asked to be removed is no run of the runs folder."""


@dataclass(frozen=True)
class Removable:
    """A run that may go.

    Attributes:
        size: bytes on disk.
        written: when anything in it was last written, in seconds since 1970.
        idle_days: since then.
    """

    name: str
    path: str
    status: str
    size: int
    written: float
    idle_days: float


@dataclass(frozen=True)
class Kept:
    """A run that stays, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """What would be removed.

    Attributes:
        leftovers: folders that an earlier removal was killed in the middle of.
    """

    folder: Path
    removable: tuple[Removable, ...]
    kept: tuple[Kept, ...]
    leftovers: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "runs": str(self.folder),
            "removable": [asdict(found) for found in self.removable],
            "kept": [asdict(found) for found in self.kept],
            "leftovers": list(self.leftovers),
        }


def plan(
    folder: Path,
    names: Sequence[str],
    older_days: float | None,
    unfinished: bool,
    slurm: Scheduler | None = None,
) -> Plan:
    """What of the runs in `folder` may go.

    Args:
        names: only these; without any, all that are idle for `older_days`.
        unfinished: take stopped and interrupted runs too.
        slurm: who is asked about their jobs; default: this process's scheduler.

    Raises:
        RemovalError: neither names nor an age, no such folder, or a name that is no run in it.
    """
    if not names and older_days is None:
        raise RemovalError("rods clean: expected names of runs or --older DAYS, found neither")
    if not folder.is_dir():
        raise RemovalError(f"--runs {folder}: expected a folder with runs, found none; give launch.runs_dir")
    root = folder.resolve()
    lines = {line.name: line for line in list_runs(root, slurm)}
    for name in names:
        check(root, name)
    removable, kept = [], []
    for name, line in lines.items():
        if names and name not in names:
            continue
        written = _written(root / name)
        idle_days = max(0.0, time.time() - written) / _DAY_S
        reason = _at_work(root / name, line) or _reason(line.status, idle_days, older_days, unfinished)
        reason = reason or _unsafe(root, name)
        if reason:
            kept.append(Kept(name, reason))
        else:
            removable.append(
                Removable(name, str(root / name), line.status, usage.size(root / name), written, idle_days)
            )
    return Plan(root, tuple(removable), tuple(kept), tuple(_leftovers(root)))


def _leftovers(root: Path) -> list[str]:
    mounts = MOUNTS.read_text()
    found = [path for path in root.glob(".removed-*") if _REMOVED.fullmatch(path.name)]
    return sorted(
        path.name
        for path in found
        if path.is_dir() and not path.is_symlink() and not mounts_below(path, mounts)
    )


def check(root: Path, name: str) -> None:
    """Whether `name` is a run right in `root`.

    Args:
        root: the runs folder, links resolved.

    Raises:
        RemovalError: a path, a link, a mount point, or no run.
    """
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise RemovalError(f"{name!r}: expected the name of a run in {root}, found a path")
    reason = _unsafe(root, name)
    if reason:
        raise RemovalError(f"{root / name}: expected a run of the runs folder, found {reason}")


def remove(plan: Plan) -> list[str]:
    """Remove what was planned, if it still is as it was then; returns the names.

    Each run is first renamed, so that nobody finds half of one. What an earlier removal that was killed left under
    such a name goes too, without being counted.

    Raises:
        RemovalError: one became a link or a mount point meanwhile, or was written to.
        OSError: it cannot be removed.
    """
    for name in plan.leftovers:
        # Another process may be at it too.
        shutil.rmtree(plan.folder / name, ignore_errors=True)
    removed = []
    for found in plan.removable:
        check(plan.folder, found.name)
        path = plan.folder / found.name
        if _written(path) > found.written:
            raise RemovalError(f"{path}: it was written to just now; nothing of it was removed")
        away = plan.folder / f".removed-{found.name}-{os.getpid()}"
        path.rename(away)
        shutil.rmtree(away)
        removed.append(found.name)
    return removed


def _at_work(path: Path, line: Line) -> str:
    """Who is still busy with a run, also with one that came to its end; "" for nobody."""
    if line.jobs:
        return f"job {' '.join(line.jobs)} has not ended"
    following = None if line.status == "damaged" else owner.newest(RunDir(path))
    return (
        f"process {following.pid} still follows it" if following and following.is_alive(RunDir(path)) else ""
    )


def _reason(status: str, idle_days: float, older_days: float | None, unfinished: bool) -> str:
    """Why a run stays; "" when it may go."""
    if status in _RESUMABLE and not unfinished:
        return f"{status}: it could be resumed (--unfinished takes it too)"
    if status not in _ENDED + _RESUMABLE:
        return f"{status}"
    if older_days is not None and idle_days < older_days:
        return f"written to {idle_days:.1f} days ago"
    return ""


def _unsafe(root: Path, name: str) -> str:
    """What else than a run of `root` the name stands for; "" for a run."""
    path = root / name
    if path.is_symlink():
        return "a link"
    if not path.is_dir() or not RunDir(path).manifest.is_file():
        return "no run"
    mounted = mounts_below(path, MOUNTS.read_text())
    if mounted:
        return f"a mount point ({mounted[0]})"
    return "" if path.resolve().parent == root else "a path that leads out of it"


def _written(path: Path) -> float:
    """When the newest change in a run was made, of those that its roles make."""
    newest = path.lstat().st_mtime
    for parent, names, files in os.walk(path):
        if Path(parent).name == "code":
            names.clear()
            continue
        for name in files:
            try:
                newest = max(newest, (Path(parent) / name).lstat().st_mtime)
            except OSError:
                continue  # it vanished meanwhile
    return newest
