"""The run directory: where everything of one run lies, and the only place where the two jobs meet.

The names of its parts are written here once. A new directory is made with an exclusive mkdir and a random
suffix, since two runs started in the same second must never share one.
"""

from __future__ import annotations

import re
import secrets
import string
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rods.errors import RodsError
from rods.exchange import permissions
from rods.exchange.atomic import CorruptFileError, fsync_dir, make_dirs, read_json, write_json
from rods.exchange.pressure import attempt
from rods.exchange.queue import Queue

QUEUES = ("seeds", "variants")
_FOLDERS = (
    "attempts",
    "journal",
    "expanded",
    "checkpoints",
    "metrics",
    "rollouts",
    "heartbeats",
    "report",
    "wandb",
)
_SUFFIX_LETTERS = string.ascii_lowercase + string.digits
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TRIES = 100


class RunDirError(RodsError):
    """A run directory cannot be made or used."""


class NotARunDirError(RunDirError):
    """A path that is no RODS run directory."""


@dataclass(frozen=True)
class RunDir:
    """Paths inside one run directory. Making this object checks and touches nothing: see `create`, `open`.

    Attributes:
        path: the directory.
        series: whose attempts and stop file these are: "" the run's own, a daemon's name those of a daemon in a
            Slurm job of its own, which starts and stops apart from the trainer.
    """

    path: Path
    series: str = ""

    @classmethod
    def create(
        cls, runs_dir: Path, experiment: str, config_hash: str, *, mode: str = "0750", group: str = ""
    ) -> RunDir:
        """Make <experiment>-<first 8 of config_hash>-<random 6> under `runs_dir`, with its folders.

        Args:
            mode: permissions of the run's folder, octal; what lies inside follows the umask of its writers
                (see `permissions.adopt`).
            group: Unix group that everything in it belongs to; "": the user's own.

        Raises:
            PermissionsError: a group that this user cannot give; nothing was made.
            RunDirError: a name that is no plain file name.
            OSError: the place cannot be written.
        """
        for name in (experiment, config_hash):
            if not _SAFE_NAME.fullmatch(name):
                raise RunDirError(
                    f"cannot name a run directory after {name!r}: expected letters, digits, '.', '_', '-', "
                    "starting with a letter or digit, at most 100. Choose another experiment name."
                )
        group_id = permissions.group_id(group)
        make_dirs(Path(runs_dir))
        run = cls(_make_unique(Path(runs_dir).resolve(), f"{experiment}-{config_hash[:8]}"))
        permissions.share(run.path, mode, group_id)
        for folder in _FOLDERS:
            make_dirs(run.path / folder)
        for queue in QUEUES:
            run.queue(queue)
        write_json(run.manifest, {"experiment": experiment, "config_hash": config_hash, "name": run.name})
        fsync_dir(run.path.parent)
        return run

    @classmethod
    def open(cls, path: Path, series: str = "") -> RunDir:
        """The run directory at `path`.

        Raises:
            NotARunDirError: it is none; says what was expected.
        """
        run = cls(Path(path).resolve(), series)
        run.read_manifest()
        return run

    @property
    def name(self) -> str:
        """The directory's own name, which is the run's name."""
        return self.path.name

    @property
    def manifest(self) -> Path:
        """What the run is: names and hashes, written at submit."""
        return self.path / "manifest.json"

    @property
    def config_file(self) -> Path:
        """The frozen configuration."""
        return self.path / "config.yaml"

    @property
    def code(self) -> Path:
        """The frozen source code."""
        return self.path / "code"

    @property
    def attempts(self) -> Path:
        """One folder per (re)start."""
        return self.path / "attempts" / self.series

    @property
    def journal_dir(self) -> Path:
        """The journals; see `journal_file`."""
        return self.path / "journal"

    @property
    def expanded(self) -> Path:
        """Accepted variants by epoch; see `expanded_file`."""
        return self.path / "expanded"

    @property
    def tracker(self) -> Path:
        """Snapshot of the curriculum and the journal positions it stands for."""
        return self.path / "tracker.json"

    @property
    def checkpoints(self) -> Path:
        """Model, optimizer and curriculum, one folder per saved step."""
        return self.path / "checkpoints"

    @property
    def metrics(self) -> Path:
        """Folder of the metrics files, one per role."""
        return self.path / "metrics"

    @property
    def rollouts(self) -> Path:
        """Sampled episodes kept for reading."""
        return self.path / "rollouts"

    @property
    def heartbeats(self) -> Path:
        """Signs of life, one file per role."""
        return self.path / "heartbeats"

    @property
    def report(self) -> Path:
        """The report and its figures."""
        return self.path / "report"

    @property
    def wandb(self) -> Path:
        """Local files of Weights & Biases."""
        return self.path / "wandb"

    @property
    def stop_file(self) -> Path:
        """Absent; made by whoever asks the roles to stop cleanly."""
        return (self.attempts if self.series else self.path) / "STOP"

    @property
    def whole(self) -> RunDir:
        """The run as the trainer sees it."""
        return RunDir(self.path)

    def queue(self, name: str, *, lease_s: float = 60.0, max_deliveries: int = 3) -> Queue:
        """The queue "seeds" (trainer to synthesis) or "variants" (back). Raises RunDirError for others."""
        if name not in QUEUES:
            raise RunDirError(f"no queue {name!r}: expected one of {', '.join(QUEUES)}.")
        return Queue(self.path / "queues" / name, lease_s=lease_s, max_deliveries=max_deliveries)

    def journal_file(self, writer: str, attempt: int) -> Path:
        """Where role `writer` journals in its `attempt` (from 1)."""
        return self.journal_dir / f"{writer}-{attempt:04d}.log"

    def expanded_file(self, epoch: int) -> Path:
        """Accepted variants that entered at `epoch` (from 1), one JSON line each."""
        return self.expanded / f"expanded_epoch_{epoch:04d}.jsonl"

    def attempt_dir(self, attempt: int) -> Path:
        """The folder of one (re)start: output of the processes."""
        return self.attempts / f"{attempt:04d}"

    def last_attempt(self) -> int:
        """Number of the newest attempt; 0 when there was none."""
        numbers = (int(path.name) for path in self.attempts.glob("[0-9]*") if path.name.isdigit())
        return max(numbers, default=0)

    def next_attempt(self) -> int:
        """Begin a new attempt: makes its folder, exclusively, and returns its number (1 for the first)."""
        make_dirs(self.attempts)
        for _ in range(_TRIES):
            number = self.last_attempt() + 1
            if _mkdir(self.attempt_dir(number)):
                fsync_dir(self.attempts)
                return number
        raise RunDirError(
            f"{self.attempts}: {_TRIES} others began an attempt first. Is the run started in a loop?"
        )

    def read_manifest(self) -> dict[str, Any]:
        """The manifest.

        Raises:
            NotARunDirError: there is none, or it is no JSON object.
        """
        try:
            manifest = read_json(self.manifest)
        except (FileNotFoundError, NotADirectoryError, CorruptFileError) as error:
            found = "damaged JSON" if isinstance(error, CorruptFileError) else "none"
            raise self._not_a_run(found) from error
        if not isinstance(manifest, dict):
            raise self._not_a_run(f"a JSON {type(manifest).__name__}")
        return manifest

    def _not_a_run(self, found: str) -> NotARunDirError:
        return NotARunDirError(
            f"not a RODS run directory: {self.path}: expected manifest.json with a JSON object, "
            f"found {found}. Give the path that launch.py printed."
        )

    def update_manifest(self, **fields: Any) -> dict[str, Any]:
        """Set `fields` in the manifest, atomically; only the launcher writes it. Returns the whole."""
        manifest = self.read_manifest() | fields
        write_json(self.manifest, manifest)
        return manifest


def _make_unique(parent: Path, stem: str) -> Path:
    """A new folder <stem>-<random 6> in `parent`."""
    for _ in range(_TRIES):
        path = parent / f"{stem}-{''.join(secrets.choice(_SUFFIX_LETTERS) for _ in range(6))}"
        if _mkdir(path):
            return path
    raise RunDirError(f"{parent}: no free name {stem}-<random> in {_TRIES} tries. Use another runs_dir.")


def _mkdir(path: Path) -> bool:
    """Make folder `path`; False when it is there already."""
    try:
        attempt(path.mkdir, path, transient=())  # after a lost reply it would look as if another had made it
    except FileExistsError:
        return False
    return True
