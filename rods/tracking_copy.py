"""What Weights & Biases gets besides the trainer's metrics: synthesis, tables and artifacts, from the run directory.

The copy is made offline, in the run directory, and then uploaded together with all that was tracked offline; so it
works on a node without network, and again after more was done: only what is new is copied.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import wandb
from wandb.errors import Error as WandbError

from rods.config import Config
from rods.errors import RodsError
from rods.exchange.atomic import read_json, write_json
from rods.exchange.lineage import history
from rods.exchange.metrics import read_metrics
from rods.exchange.rundir import RunDir
from rods.tracking import identity, numbers, tags
from rods.variants import collect

ROLE = "synthesis"
_COPIED = "copied.json"
_BIG = 100_000_000  # bytes; larger files are referred to, not uploaded
_SEED_COLUMNS = ("key", "task_id", "seed_id", "type", "step", "epoch", "mean", "phi")
_VARIANT_COLUMNS = ("id", "parent", "seed", "type", "kind", "status", "reason", "attempts", "distance")
Rows = list[list[Any]]


class TrackingError(RodsError):
    """What could not be brought to W&B."""


def copy(run: RunDir, config: Config) -> int:
    """Put what is new since the last time into an offline W&B run in the run directory.

    Returns:
        the number of metrics lines that were copied.

    Raises:
        TrackingError: W&B cannot write there.
        RodsError: a damaged run directory.
    """
    before = _before(run)
    lines = [line for path in sorted(run.metrics.glob(f"{ROLE}*.jsonl")) for line in _named(path)]
    lines.sort(key=lambda line: line[1]["time"])
    tables = {"seeds": seeds(run), "variants": variants(run)}
    content = {"tables": _digest(tables), "files": [path.name for path in _files(run)]}
    if len(lines) == before["lines"] and content == before["content"]:
        return 0
    try:
        _write(run, config, lines[before["lines"] :], before["lines"], tables)
    except (WandbError, OSError) as error:
        raise TrackingError(
            f"{run.wandb}: expected to write an offline W&B run there, found {error}"
        ) from error
    write_json(run.wandb / _COPIED, {"lines": len(lines), "content": content})
    return len(lines) - int(before["lines"])


def offline_runs(run: RunDir) -> list[Path]:
    """Folders of what was tracked offline and not uploaded yet, oldest first."""
    found = sorted(run.wandb.glob("wandb/offline-run-*"))
    return [folder for folder in found if not list(folder.glob("*.wandb.synced"))]


def upload(run: RunDir) -> int:
    """Send what was tracked offline; returns how many W&B runs that was.

    The key is wandb's own business (`wandb login`, WANDB_API_KEY): it is neither read nor shown here.

    Raises:
        TrackingError: wandb refused; its own words are above the message.
    """
    folders = offline_runs(run)
    if not folders:
        return 0
    command = [sys.executable, "-m", "wandb", "sync", "--yes", *map(str, folders)]
    if (status := subprocess.run(command, check=False, stdout=sys.stderr).returncode) != 0:
        raise TrackingError(
            f"wandb sync: expected exit status 0, found {status}. Log in (wandb login, or WANDB_API_KEY) on a machine "
            f"with network and repeat `rods wandb-sync {run.path}`; nothing was lost"
        )
    return len(folders)


def seeds(run: RunDir) -> Rows:
    """A row for each seed that was handed to synthesis, with `_SEED_COLUMNS`."""
    events = history(run.journal_dir, "train")
    return [[event[name] for name in _SEED_COLUMNS] for event in events if event["name"] == "seed_emitted"]


def variants(run: RunDir) -> Rows:
    """A row for each variant and each request without one, with `_VARIANT_COLUMNS`."""
    return [[getattr(item, name) for name in _VARIANT_COLUMNS] for item in collect.collect(run)]


def _write(
    run: RunDir,
    config: Config,
    lines: Sequence[tuple[str, Mapping[str, Any]]],
    first: int,
    tables: Mapping[str, Rows],
) -> None:
    settings = wandb.Settings(console="off", silent=True, disable_git=True, save_code=False)
    with wandb.init(
        project=config.tracking.project,
        entity=config.tracking.entity or None,
        group=run.name,
        job_type=ROLE,
        name=f"{run.name} {ROLE}",
        id=identity(run, ROLE),
        tags=tags(config),
        resume="allow",
        mode="offline",
        dir=str(run.wandb),
        config=config.to_dict(),
        settings=settings,
    ) as tracked:
        for step, (writer, line) in enumerate(lines, start=first):
            tracked.log(numbers({writer: line}), step=step)
        for name, columns in (("seeds", _SEED_COLUMNS), ("variants", _VARIANT_COLUMNS)):
            tracked.log({name: wandb.Table(columns=list(columns), data=tables[name])})
        for artifact in artifacts(run):
            tracked.log_artifact(artifact)


def artifacts(run: RunDir) -> list[wandb.Artifact]:
    """Expanded sets by content, big ones and checkpoints by reference to where they lie."""
    expanded = wandb.Artifact(f"{run.name}-expanded", type="dataset")
    checkpoints = wandb.Artifact(f"{run.name}-checkpoints", type="model")
    for path in _files(run):
        if path.is_dir():
            checkpoints.add_reference(path.as_uri(), name=path.name, checksum=False)
        elif path.stat().st_size > _BIG:
            expanded.add_reference(path.as_uri(), name=path.name, checksum=False)
        else:
            # It never changes again, so wandb need not make a copy in the user's home.
            expanded.add_file(str(path), name=path.name, policy="immutable")
    return [artifact for artifact in (expanded, checkpoints) if artifact.manifest.entries]


def _files(run: RunDir) -> list[Path]:
    """Expanded sets that hold anything, and complete checkpoints."""
    sets = [path for path in sorted(run.expanded.glob("*.jsonl")) if path.stat().st_size]
    return [*sets, *(path.parent for path in sorted(run.checkpoints.glob("step_*/COMPLETE")))]


def _named(path: Path) -> list[tuple[str, dict[str, Any]]]:
    return [(path.stem, line) for line in read_metrics(path)]


def _before(run: RunDir) -> dict[str, Any]:
    file = run.wandb / _COPIED
    found = read_json(file) if os.path.exists(file) else {"lines": 0, "content": None}
    if not isinstance(found, dict) or not isinstance(found.get("lines"), int) or "content" not in found:
        raise TrackingError(
            f"{file}: expected what was copied before, found {str(found)[:80]}; remove it to copy all again"
        )
    return found


def _digest(tables: Mapping[str, Rows]) -> str:
    return hashlib.sha256(json.dumps(tables, sort_keys=True, default=str).encode()).hexdigest()
