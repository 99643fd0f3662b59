"""All probes of one directory, in a scratch folder there that is gone afterwards."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rods.config import ExchangeConfig
from rods.doctor import atomicity, locks, timing, volume
from rods.doctor.finding import Finding, Level
from rods.errors import RodsError

Probe = Callable[[Path], Finding]


def directory(path: Path, exchange: ExchangeConfig) -> list[Finding]:
    """Probe the file system of `path`; one that does not exist yet is probed at its nearest parent.

    A probe that fails is a finding too. Ctrl-C ends the probes; the scratch folder is removed all the same.
    """
    place = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.is_dir())
    probes: dict[str, Probe] = {
        "file system": volume.kind,
        "space": volume.space,
        "inodes": volume.inodes,
        "quota": volume.quota,
        "names": volume.names,
        "rename over a file": atomicity.replacement,
        "rename as a claim": atomicity.claims,
        "exclusive hard link": atomicity.links,
        "exclusive mkdir": atomicity.folders,
        "flock": locks.flock,
        "durable write": partial(timing.durable_writes, exchange=exchange),
        "clock": partial(timing.clock, exchange=exchange),
        "visibility": partial(timing.visibility, exchange=exchange),
    }
    try:
        with _scratch(place) as scratch:
            return [_run(name, probe, scratch) for name, probe in probes.items()]
    except OSError as error:
        return [_failed("scratch folder", error, f"Nothing can be made in {place}.")]


def _run(name: str, probe: Probe, scratch: Path) -> Finding:
    folder = scratch / name.replace(" ", "-")
    try:
        folder.mkdir()
        return probe(folder)
    except (OSError, RodsError) as error:
        return _failed(name, error, "What a run needs failed here: use another file system.")


def _failed(name: str, error: Exception, meaning: str) -> Finding:
    return Finding(name, Level.unfit, f"failed: {error}", meaning)


@contextmanager
def _scratch(place: Path) -> Iterator[Path]:
    folder = place / f".rods-doctor-{secrets.token_hex(6)}"
    try:
        folder.mkdir(mode=0o700)  # in here: Ctrl-C may come as soon as it is made
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
