"""What Weights & Biases gets of synthesis, from the run directory: metrics, and tables of seeds and variants.

The same is done live by each daemon (`rods.tracking_live`) and afterwards by `rods wandb-sync`, for what no daemon
could copy any more. How far the copy has come lies beside it, so nothing is copied twice.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from rods.config import Config
from rods.errors import RodsError
from rods.exchange import heartbeat, owner, replica
from rods.exchange.atomic import CorruptFileError, parse_json, read_json, write_json
from rods.exchange.lineage import history
from rods.exchange.rundir import RunDir
from rods.tracking import OFFLINE, Tracker, identity
from rods.tracking_artifacts import ROLE as TRAIN
from rods.tracking_artifacts import TrainTracker, pending
from rods.variants import collect

ROLE = "synthesis"
_SEED_COLUMNS = ("key", "task_id", "seed_id", "type", "step", "epoch", "mean", "phi")
_VARIANT_COLUMNS = ("id", "parent", "seed", "type", "kind", "status", "reason", "attempts", "distance")
Rows = list[list[Any]]


class TrackingError(RodsError):
    """What could not be brought to W&B."""


@dataclass(frozen=True)
class Position:
    """How far one daemon's copy has come.

    Attributes:
        size: bytes of its metrics file.
        step: W&B's next step: it refuses one that is not above those before, also those of earlier attempts.
        tables: digest of the tables that were copied last; "" for none.
    """

    size: Annotated[int, Field(ge=0, strict=True)] = 0
    step: Annotated[int, Field(ge=0, strict=True)] = 0
    tables: str = ""


class Copy:
    """Brings what one daemon wrote to its W&B run, from where the last copy ended.

    Args:
        run: the run directory.
        writer: the name that the daemon writes under; the first of them copies the tables, which are the run's.

    Raises:
        TrackingError: the file that says how far the last copy came holds something else.
    """

    def __init__(self, run: RunDir, writer: str) -> None:
        self._run, self._writer = run, writer
        self._file = run.wandb / f"copied-{writer}.json"
        self._position = _read(self._file)

    @property
    def behind(self) -> bool:
        """Whether there is something to copy."""
        return bool(self._news()) or self._tables() is not None

    def metrics(self, tracker: Tracker) -> int:
        """Copy the lines that were added; returns how many, 0 when W&B failed."""
        news = self._news()
        for step, line in enumerate(news, start=self._position.step):
            tracker.log({ROLE: parse_json(line, self._metrics)}, step)
        if not tracker.active or not news:
            return 0
        size = sum(len(line) + 1 for line in news)
        self._advance(self._position.tables, steps=len(news), size=size)
        return len(news)

    def tables(self, tracker: Tracker) -> None:
        """Copy the tables when they changed."""
        if (found := self._tables()) is None:
            return
        tracker.table("seeds", _SEED_COLUMNS, found[0], self._position.step)
        tracker.table("variants", _VARIANT_COLUMNS, found[1], self._position.step)
        if tracker.active:
            self._advance(_digest(found), steps=1, size=0)

    @property
    def _metrics(self) -> Path:
        return self._run.metrics / f"{self._writer}.jsonl"

    def _news(self) -> list[bytes]:
        """Whole lines behind the position; half a line at the end is not there yet."""
        if not self._metrics.exists():
            return []
        with self._metrics.open("rb") as file:
            file.seek(self._position.size)
            return file.read().split(b"\n")[:-1]

    def _tables(self) -> tuple[Rows, Rows] | None:
        """The tables, where this daemon copies them and they changed."""
        if self._writer != ROLE:
            return None
        found = seeds(self._run), variants(self._run)
        return found if any(found) and _digest(found) != self._position.tables else None

    def _advance(self, tables: str, steps: int, size: int) -> None:
        before = self._position
        self._position = Position(before.size + size, before.step + steps, tables)
        write_json(self._file, asdict(self._position))


@dataclass(frozen=True)
class Copied:
    """What `catch_up` did.

    Attributes:
        lines: of synthesis metrics that were copied.
        left: processes that run, and so copy by themselves.
    """

    lines: int
    left: tuple[str, ...]


def catch_up(run: RunDir, config: Config) -> Copied:
    """Put what no live process copies into offline W&B runs in the run directory: metrics, tables, artifacts.

    Raises:
        TrackingError: W&B cannot write there.
        RodsError: a damaged run directory.
    """
    live = alive(run, config)
    lines = 0
    writers = [path.stem for path in replica.metrics_files(run, ROLE)]
    for writer in writers:
        copy = Copy(run, writer)
        if writer not in live and copy.behind:
            with Tracker(run, ROLE, config, writer, OFFLINE) as tracker:
                lines += copy.metrics(tracker)
                copy.tables(tracker)
            _check(run, tracker)
    if TRAIN not in live and pending(run):
        with TrainTracker(run, config, OFFLINE) as train:
            train.artifacts()
        _check(run, train)
    return Copied(lines, tuple(sorted(live.intersection({*writers, TRAIN}))))


def alive(run: RunDir, config: Config) -> set[str]:
    """Names of the processes that show signs of life, where those copy by themselves."""
    if config.tracking.wandb == "disabled":
        return set()
    beats = heartbeat.read_all(run.heartbeats).values()
    limit = config.launch.heartbeat_timeout_s
    return {beat.role for beat in beats if owner.is_alive(beat, limit)}


def offline_runs(run: RunDir, live: Sequence[str] = ()) -> list[Path]:
    """Folders of what was tracked offline and not uploaded yet, oldest first.

    Args:
        live: processes that still write; the newest folder of each is left out, since W&B uploads a folder once.
    """
    found = sorted(run.wandb.glob("wandb/offline-run-*"))
    for writer in live:
        own = [folder for folder in found if folder.name.endswith(f"-{identity(run, writer)}")]
        found = [folder for folder in found if folder not in own[-1:]]
    return [folder for folder in found if not list(folder.glob("*.wandb.synced"))]


def upload(run: RunDir, live: Sequence[str] = ()) -> int:
    """Send what was tracked offline; returns how many W&B runs that was.

    The key is wandb's own business (`wandb login`, WANDB_API_KEY): it is neither read nor shown here.

    Raises:
        TrackingError: wandb refused; its own words are above the message.
    """
    folders = offline_runs(run, live)
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
    events = history(run.journal_dir, TRAIN)
    return [[event[name] for name in _SEED_COLUMNS] for event in events if event["name"] == "seed_emitted"]


def variants(run: RunDir) -> Rows:
    """A row for each variant and each request without one, with `_VARIANT_COLUMNS`."""
    return [[getattr(item, name) for name in _VARIANT_COLUMNS] for item in collect.collect(run)]


def _check(run: RunDir, tracker: Tracker) -> None:
    if tracker.problem:
        raise TrackingError(
            f"{run.wandb}: expected to write an offline W&B run there, found {tracker.problem}"
        )


def _read(file: Path) -> Position:
    if not file.is_file():
        return Position()
    try:
        return TypeAdapter(Position).validate_python(read_json(file))
    except (ValidationError, CorruptFileError) as error:
        raise TrackingError(
            f"{file}: expected how far the copy has come, found something else; remove it to copy all again"
        ) from error


def _digest(tables: Sequence[Rows]) -> str:
    return hashlib.sha256(json.dumps(tables, sort_keys=True, default=str).encode()).hexdigest()
