"""Freeze what a run is made of, and check at each role's start that it is still that.

A job may wait for days; an edit to a YAML or a source file meanwhile must not change it. The resolved
configuration and the source code are copied into the run directory, their hashes go into its manifest, and a
role runs from the copy.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import yaml

import rods
from launchers import environment
from launchers.errors import SnapshotError
from launchers.identity import config_hash, plain
from rods.config import Config, from_mapping
from rods.exchange import permissions
from rods.exchange.atomic import write_text
from rods.exchange.rundir import RunDir

PACKAGES = ("rods", "launchers", "analysis")
# Absent where only the packages are installed.
BESIDE = ("conf", "hydra_plugins", "launch.py", "setup.cfg", "pyproject.toml")
ENVIRONMENT_FILE = "env.txt"
_NOT_SOURCE = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")
_SHOWN = 3


def freeze(
    run: RunDir,
    config: Config,
    overrides: Sequence[str],
    source: Path | None = None,
    like: RunDir | None = None,
) -> None:
    """Write config.yaml, code/, env.txt and their hashes into a new run directory.

    Args:
        overrides: what was typed after `launch.py`, for a person who wants to start the run again.
        source: root of the source tree to copy; default: where this package lies.
        like: a run frozen just before, for a sweep: its code is taken instead, as links to the same files. They are
            never written, and each role still compares them with their hashes.

    Raises:
        SnapshotError: `source` lacks a package.
    """
    if like is None:
        _copy_code(source or Path(rods.__file__).parent.parent, run.code)
        files = {}
    else:
        shutil.copytree(like.code, run.code, copy_function=_link, ignore=_NOT_SOURCE)
        files = like.read_manifest()["files"]
    write_text(run.path / ENVIRONMENT_FILE, environment.lock())
    run.update_manifest(overrides=list(overrides), files=files)
    freeze_config(run, config)


def freeze_config(run: RunDir, config: Config) -> None:
    """Write config.yaml and its hash; a resume does it too, for what may change between attempts.

    The hash comes first: a process that dies in between leaves one of two files that `verify` knows. The hashes of
    everything else stay those of the first time.
    """
    text = yaml.safe_dump(plain(config), sort_keys=False, allow_unicode=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    run.update_manifest(next_config=digest)
    write_text(run.config_file, text)
    files = run.read_manifest().get("files") or _hashes(run)
    run.update_manifest(config_hash=config_hash(config), files={**files, run.config_file.name: digest})


def load_config(run: RunDir) -> Config:
    """The frozen configuration, unchecked; see `verify`.

    Raises:
        SnapshotError: there is none, or it is no configuration.
    """
    try:
        return from_mapping(yaml.safe_load(run.config_file.read_text()))
    except FileNotFoundError as error:
        raise SnapshotError(
            f"{run.config_file}: expected the frozen configuration, found none; start a new run"
        ) from error
    except (yaml.YAMLError, ValueError, TypeError, AttributeError) as error:
        found = " ".join(str(error).split())
        raise SnapshotError(
            f"{run.config_file}: expected the frozen configuration, found something else ({found}). "
            "Put the file back as it was, or start a new run"
        ) from error


def verify(run: RunDir) -> Config:
    """Compare every frozen file with its hash in the manifest; returns the frozen configuration.

    Raises:
        SnapshotError: a file was changed, removed or added since; names it.
    """
    manifest = run.read_manifest()
    frozen = manifest.get("files")
    if not isinstance(frozen, dict):
        raise SnapshotError(
            f"{run.manifest}: expected the hashes of the frozen files, found none; start a new run"
        )
    found = _hashes(run)
    if found.get(run.config_file.name, "") == manifest.get("next_config"):
        found[run.config_file.name] = frozen.get(run.config_file.name, "")
    wrong = [f"{name} was changed" for name in frozen if name in found and found[name] != frozen[name]]
    wrong += [f"{name} is missing" for name in frozen if name not in found]
    wrong += [f"{name} was added" for name in found if name not in frozen]
    if wrong:
        more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise SnapshotError(
            f"{run.path}: the frozen run is not what was submitted: {', '.join(wrong[:_SHOWN])}{more}. "
            "Put the file back as it was, or start a new run"
        )
    return load_config(run)


def check_origin(run: RunDir) -> None:
    """Refuse to run any other code than the frozen one.

    Raises:
        SnapshotError: this process imported `rods` from elsewhere.
    """
    origin = Path(rods.__file__).resolve().parent.parent
    if origin != run.code.resolve():
        raise SnapshotError(
            f"expected the code of {run.code}, found that of {origin}; start the role with "
            f"PYTHONPATH={run.code} PYTHONSAFEPATH=1"
        )


def environment_changes(run: RunDir) -> list[str]:
    """Which packages are not those that the run was frozen with; see `environment.changes`.

    Of a run in a container nothing is said: it is frozen outside of it.
    """
    try:
        frozen = (run.path / ENVIRONMENT_FILE).read_text()
    except FileNotFoundError:
        return []  # where it must be there, `verify` misses it
    if load_config(run).cluster.container.kind != "none":
        return []
    return environment.changes(frozen, environment.lock())


def _copy_code(source: Path, target: Path) -> None:
    for name in PACKAGES:
        if not (source / name).is_dir():
            raise SnapshotError(
                f"{source}: expected the package {name} to freeze, found none; reinstall the project"
            )
        shutil.copytree(source / name, target / name, ignore=_NOT_SOURCE)
    for name in BESIDE:
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, ignore=_NOT_SOURCE)
        elif (source / name).is_file():
            shutil.copy2(source / name, target / name)
    permissions.settle(target)


def _link(source: str, target: str) -> None:
    """A second name for a file; a copy where the file system gives none."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _hashes(run: RunDir) -> dict[str, str]:
    """SHA-256 by path relative to the run directory. Byte code that Python wrote meanwhile is no source."""
    files = [run.config_file, run.path / ENVIRONMENT_FILE]
    files += [p for p in sorted(run.code.rglob("*")) if p.is_file() and "__pycache__" not in p.parts]
    return {
        str(path.relative_to(run.path)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.is_file()
    }
