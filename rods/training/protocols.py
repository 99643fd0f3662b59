"""What the loop asks of others: a policy that trains, and somebody who watches.

The loop decides about tasks, never about tensors. Behind these protocols a run has DeepSpeed and vLLM; a crash
soak has a policy that is one number, with everything else real.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from rods.config import Config
from rods.curriculum.events import EvaluationDone
from rods.rollout.episode import Rollout
from rods.tasks.model import Task
from rods.training.checkpoint import Exports, Saves
from rods.training.heldout import Exam


class Result(Protocol):
    """What a training step observed; `rods.training.step.StepResult` is one."""

    @property
    def groups(self) -> Sequence[Sequence[Rollout]]:
        """One group of rollouts per task."""

    @property
    def metrics(self) -> Mapping[str, float]:
        """Figures for the metrics file."""


class Stepper(Protocol):
    """The policy, as far as the loop needs it: trained a step at a time, evaluated, kept on disk."""

    rank: int
    engine_name: str

    def start(self, step: int, tasks: Sequence[Task]) -> None:
        """Get ready to continue after `step` steps."""

    def use(self, config: Config) -> None:
        """Sample and train by these settings from the next step on: those of the stage that begins."""

    def run(
        self,
        tasks: Sequence[Task],
        step: int,
        on_progress: Callable[[int, int], None],
        on_phase: Callable[[str], None],
        upcoming: Sequence[Task] = (),
    ) -> Result:
        """Train on one group of rollouts per task; `upcoming` are the next step's tasks, none before an epoch's end."""

    def evaluate(
        self, tasks: Sequence[Task], exam: Exam, on_progress: Callable[[int, int], None]
    ) -> EvaluationDone:
        """What the policy earns on `tasks`; changes nothing that training depends on."""

    def save(self, folder: Path) -> None:
        """Write the state below `folder`, on all ranks."""

    def load(self, folder: Path) -> None:
        """Continue from what `save` wrote."""

    def capture(self) -> AbstractContextManager[Saves]:
        """Copy what `save` writes to host memory, until the next call; on rank 0 what writes it, in any thread."""

    def capture_policy(self) -> Exports:
        """The policy in host memory, on rank 0 what writes it, in any thread."""


class Watcher(Protocol):
    """Who follows the loop: heartbeats, metrics, tracking, and the wish to stop."""

    def beat(self, phase: str, **info: Any) -> None:
        """The loop is alive and does `phase`."""

    def log(self, record: dict[str, Any]) -> None:
        """A line for the metrics file and the tracking service."""

    def keep(self, step: int, groups: Sequence[Sequence[Rollout]]) -> None:
        """A step's rollouts, to be kept for reading."""

    def stop_requested(self) -> bool:
        """Whether to save and leave as soon as possible."""
