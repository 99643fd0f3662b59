"""Weights & Biases as a copy of what the run directory holds.

The local journal and metrics files are the truth. A tracking service that cannot be reached, or breaks in the
middle of a run, costs its copy and nothing else: the reason is printed once and the run goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import wandb
from wandb.errors import Error as WandbError

from rods.config import Config
from rods.exchange.atomic import write_text
from rods.exchange.rundir import RunDir

_MOST_TAG = 64


def resolve_mode(mode: str) -> str:
    """`auto` becomes online when the user is logged in to W&B, else offline; other modes stay."""
    if mode != "auto":
        return mode
    return "online" if wandb.login(prompt=False) else "offline"


def identity(run: RunDir, role: str) -> str:
    """The id of a role's W&B run: the one in the run directory, which is written there when there is none.

    So a run directory that was moved or renamed goes on with the W&B run that it began.
    """
    file = run.wandb / f"{role}.id"
    if not file.is_file():
        write_text(file, f"{run.name}-{role}\n")
    return file.read_text(encoding="utf-8").strip()


def tags(config: Config) -> tuple[str, ...]:
    """What a run is found by: experiment, ablation, seed. W&B allows 64 characters a tag."""
    found = (config.experiment, config.ablation, f"seed {config.seed}")
    return tuple(tag[:_MOST_TAG] for tag in found if tag)


class Tracker:
    """One role's W&B run; all attempts of the role continue it, its id lies in the run directory.

    Project and entity are configured, the group is the run's name, the job type is the role.

    Args:
        run: the run directory; files go to `wandb/`.
        role: train or synthesis; the W&B job type.
        config: `tracking` says where to; all of it is stored with the run.
    """

    def __init__(self, run: RunDir, role: str, config: Config) -> None:
        self._run: Any = None
        mode = resolve_mode(config.tracking.wandb)
        if mode == "disabled":
            return
        settings = wandb.Settings(console="off", silent=True, disable_git=True, save_code=False)
        try:
            self._run = wandb.init(
                project=config.tracking.project,
                entity=config.tracking.entity or None,
                group=run.name,
                job_type=role,
                name=f"{run.name} {role}",
                id=identity(run, role),
                tags=tags(config),
                resume="allow",
                mode=mode,  # type: ignore[arg-type]  # checked by rods.config.rules
                dir=str(run.wandb),
                config=config.to_dict(),
                settings=settings,
            )
        except (WandbError, OSError) as error:
            self._give_up(error)

    def log(self, record: Mapping[str, Any], step: int) -> None:
        """Copy the numbers of `record`, nested ones under "outer/inner"."""
        if self._run is None:
            return
        try:
            self._run.log(numbers(record), step=step)
        except (WandbError, OSError) as error:
            self._give_up(error)

    def close(self, exit_code: int) -> None:
        """Finish the W&B run."""
        if self._run is not None:
            self._run.finish(exit_code=exit_code)
            self._run = None

    def __enter__(self) -> Tracker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(0 if kind is None else 1)

    def _give_up(self, error: Exception) -> None:
        self._run = None
        print(f"W&B: {error}; the run goes on, its metrics are in the run directory", file=sys.stderr)


def numbers(record: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers in a nested record under path-like names; everything else is left out."""
    flat: dict[str, float] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            flat |= numbers(value, f"{prefix}{key}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            flat[f"{prefix}{key}"] = value
    return flat
