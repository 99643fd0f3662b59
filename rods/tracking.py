"""Weights & Biases as a copy of what the run directory holds.

The local journal and metrics files are the truth. A tracking service that cannot be reached, or breaks in the
middle of a run, costs its copy and nothing else: the reason is printed once and the run goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import wandb
from wandb.errors import Error as WandbError

from rods.config import Config
from rods.exchange.atomic import write_text
from rods.exchange.rundir import RunDir

_MOST_TAG = 64
OFFLINE = "offline"
DISABLED = "disabled"


def resolve_mode(mode: str) -> str:
    """`auto` becomes online when the user is logged in to W&B, else offline; other modes stay."""
    if mode != "auto":
        return mode
    return "online" if wandb.login(prompt=False) else OFFLINE


def identity(run: RunDir, writer: str) -> str:
    """The id of a process's W&B run: the one in the run directory, which is written there when there is none.

    So a run directory that was moved or renamed goes on with the W&B run that it began.

    Args:
        writer: the name that the process writes under (`rods.exchange.replica`): the role's, for the first of it.
    """
    file = run.wandb / f"{writer}.id"
    if not file.is_file():
        write_text(file, f"{run.name}-{writer}\n")
    return file.read_text(encoding="utf-8").strip()


def tags(config: Config) -> tuple[str, ...]:
    """What a run is found by: experiment, ablation, seed. W&B allows 64 characters a tag."""
    found = (config.experiment, config.ablation, f"seed {config.seed}")
    return tuple(tag[:_MOST_TAG] for tag in found if tag)


class Tracker:
    """One process's W&B run; all its attempts continue it, its id lies in the run directory.

    Project and entity are configured, the group is the run's name, the job type is the role.

    Args:
        run: the run directory; files go to `wandb/`.
        role: train or synthesis; the W&B job type.
        config: `tracking` says where to; all of it is stored with the run.
        writer: the name that the process writes under; "": the role's.
        mode: instead of the configured one; "": that.

    Attributes:
        problem: why nothing more is copied; "" while all is well or nothing was to be copied.
    """

    def __init__(self, run: RunDir, role: str, config: Config, writer: str = "", mode: str = "") -> None:
        self.problem = ""
        self._run: Any = None
        writer, mode = writer or role, mode or resolve_mode(config.tracking.wandb)
        if mode == DISABLED:
            return
        settings = wandb.Settings(console="off", silent=True, disable_git=True, save_code=False)

        def begin() -> None:
            self._run = wandb.init(
                project=config.tracking.project,
                entity=config.tracking.entity or None,
                group=run.name,
                job_type=role,
                name=f"{run.name} {writer}",
                id=identity(run, writer),
                tags=tags(config),
                resume="allow",
                mode=mode,  # type: ignore[arg-type]  # checked by rods.config.rules
                dir=str(run.wandb),
                config=config.to_dict(),
                settings=settings,
            )

        self.attempt(begin)

    def log(self, record: Mapping[str, Any], step: int) -> None:
        """Copy the numbers of `record`, nested ones under "outer/inner"."""
        if self._run is not None:
            self.attempt(lambda: self._run.log(numbers(record), step=step))

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], step: int) -> None:
        """Copy a table; the newest of a name is the one that W&B shows."""
        if self._run is not None:
            table = wandb.Table(columns=list(columns), data=[list(row) for row in rows])
            # With a step of its own W&B would count one more, and refuse the next line of metrics as late.
            self.attempt(lambda: self._run.log({name: table}, step=step))

    def artifact(self, artifact: wandb.Artifact) -> None:
        """Copy a new version of an artifact."""
        if self._run is not None:
            self.attempt(lambda: self._run.log_artifact(artifact))

    def close(self, exit_code: int) -> None:
        """Finish the W&B run."""
        if self._run is not None:
            self._run.finish(exit_code=exit_code)
            self._run = None

    @property
    def active(self) -> bool:
        """Whether anything is copied."""
        return self._run is not None

    def attempt(self, action: Callable[[], object]) -> None:
        """Do something that may fail with W&B or the disk; then nothing more is copied, and `problem` says why."""
        try:
            action()
        except (WandbError, OSError) as error:
            self._run, self.problem = None, str(error)
            print(f"W&B: {error}; the run goes on, its metrics are in the run directory", file=sys.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(0 if kind is None else 1)


def numbers(record: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers in a nested record under path-like names; everything else is left out."""
    flat: dict[str, float] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            flat |= numbers(value, f"{prefix}{key}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            flat[f"{prefix}{key}"] = value
    return flat
