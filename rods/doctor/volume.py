"""The file system itself: kind, options, room, names."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rods.doctor.finding import Finding, Level
from rods.exchange.usage import human

MOUNTS = Path("/proc/self/mountinfo")
_UNFIT_BYTES, _FEW_BYTES = 100 * 10**6, 20 * 10**9
_UNFIT_INODES, _FEW_INODES = 1_000, 20_000
_NAME_BYTES = 255  # what the queue's file names may need: order, key, token and owner
_KINDS = {
    "tmpfs": (Level.warning, "Memory of this node: gone with it, and no other node sees it."),
    "ramfs": (Level.warning, "Memory of this node: gone with it, and no other node sees it."),
    "overlay": (Level.note, "A container's own layer: mount a volume for runs that should outlive it."),
    "cifs": (Level.warning, "Windows shares lack parts of what is needed; prefer NFS or Lustre."),
    "lustre": (Level.ok, "Shared between nodes."),
    "nfs": (Level.ok, "Shared between nodes."),
    "nfs4": (Level.ok, "Shared between nodes."),
    "beegfs": (Level.ok, "Shared between nodes."),
    "gpfs": (Level.ok, "Shared between nodes."),
}
_LOCAL = (Level.ok, "A local disk: for runs on this machine. Two Slurm nodes need a shared file system.")


@dataclass(frozen=True)
class Mount:
    """A line of mountinfo: where, what kind, with which options (the mount's and the file system's)."""

    point: str
    kind: str
    options: tuple[str, ...]


def mount_of(folder: Path, table: str) -> Mount | None:
    """The mount in `table` (the text of mountinfo) that `folder` lies in; the later one covers the earlier."""
    path, best = str(folder), None
    for line in table.splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        point = _point(fields)
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and (best is None or len(point) >= len(best.point)):
            options = dict.fromkeys([*fields[5].split(","), *kind[2].split(",")])
            best = Mount(point, kind[0], tuple(options))
    return best


def mounts_below(folder: Path, table: str) -> list[str]:
    """Mount points at `folder` or inside of it; `table` is the text of mountinfo."""
    points = [_point(line.split()) for line in table.splitlines()]
    return [point for point in points if point == str(folder) or point.startswith(f"{folder}/")]


def _point(fields: list[str]) -> str:
    """Where a line of mountinfo mounts; blanks in it are written as octal numbers."""
    return re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), fields[4])


def kind(folder: Path) -> Finding:
    """Type and mount options of the file system."""
    found = mount_of(folder.resolve(), MOUNTS.read_text())
    if found is None:
        return Finding("file system", Level.note, "unknown", "The mount table does not list it.")
    level, meaning = _KINDS.get(found.kind, _LOCAL)
    if "soft" in found.options and found.kind.startswith("nfs"):
        level, meaning = (
            Level.warning,
            "A soft NFS mount gives up with EIO when the server pauses: mount it hard.",
        )
    if "ro" in found.options:
        level, meaning = Level.unfit, "Mounted read-only: nothing can be written."
    shown = ",".join(option for option in found.options if "=" not in option)
    return Finding("file system", level, f"{found.kind} at {found.point} ({shown})", meaning)


def space(folder: Path) -> Finding:
    """Free bytes, as far as this user may have them."""
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    figures = {"free_bytes": free}
    measured = f"{human(free)} free of {human(found.f_blocks * found.f_frsize)}"
    if free < _UNFIT_BYTES:
        return Finding(
            "space", Level.unfit, measured, "No run fits: free some, or choose another place.", figures
        )
    if free < _FEW_BYTES:
        meaning = (
            "Enough for the demo; checkpoints of a 4B model take tens of GB each (training.keep_checkpoints)."
        )
        return Finding("space", Level.warning, measured, meaning, figures)
    return Finding("space", Level.ok, measured, "A full disk pauses a run until space returns.", figures)


def inodes(folder: Path) -> Finding:
    """Free inodes: how many files may still be made."""
    found = os.statvfs(folder)
    if not found.f_files:
        return Finding("inodes", Level.ok, "made as needed", "No fixed number of files here.")
    figures = {"free_inodes": found.f_favail}
    level = Level.ok
    meaning = "A run of the paper's size makes some ten thousand files."
    if found.f_favail < _FEW_INODES:
        level = Level.unfit if found.f_favail < _UNFIT_INODES else Level.warning
        meaning += " Free some, or raise exchange.seed_batch."
    return Finding("inodes", level, f"{found.f_favail} free of {found.f_files}", meaning, figures)


def quota(folder: Path) -> Finding:
    """What `lfs quota` or `quota` says, where one of them is installed."""
    commands = {"lfs": ["lfs", "quota", "-h", str(folder)], "quota": ["quota", "-s"]}
    for name, command in commands.items():
        if shutil.which(name) is None:
            continue
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        except subprocess.TimeoutExpired:
            continue
        if done.returncode == 0 and done.stdout.strip():
            return Finding(
                "quota", Level.note, done.stdout.strip(), "It must hold the checkpoints that are kept."
            )
    return Finding(
        "quota", Level.note, "not readable (no lfs or quota answered)", "Ask whether there is one."
    )


def names(folder: Path) -> Finding:
    """Long names, names with odd characters, and names that differ in case only."""
    odd = ("x" * _NAME_BYTES, "ä ü%+~@", "case", "CASE")
    for name in odd:
        (folder / name).touch()
    there = set(os.listdir(folder))
    changed = [name for name in odd if name not in there]
    if changed:
        measured = f"{len(changed)} of {len(odd)} came back changed, such as {changed[0][:20]!r}"
        return Finding(
            "names", Level.unfit, measured, "Keys of messages would be mixed up. Use another file system."
        )
    return Finding("names", Level.ok, f"{_NAME_BYTES} bytes, any character, case kept", "Message keys fit.")
