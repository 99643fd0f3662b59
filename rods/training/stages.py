"""Which stage a run is in, and what comes after it."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf

from rods.config import Config
from rods.config.stages import StageConfig, within
from rods.curriculum.events import StageStarted
from rods.curriculum.stages import ending
from rods.errors import RodsError
from rods.tasks.model import Task, TaskType
from rods.training.ledger import Ledger


class StageError(RodsError):
    """A stage without tasks."""


def planned_steps(config: Config, tasks: Sequence[Task]) -> int:
    """Training steps if no stage ended early and the pool kept its first size: the warm-up is a fraction of them.

    Raises:
        StageError: a stage has no task to train on.
    """
    training = config.training
    size = training.tasks_per_step
    if training.stages:
        steps = sum(stage.epochs * ceil(_count(stage, tasks) / size) for stage in training.stages)
    else:
        steps = training.epochs * ceil(len(tasks) / size)
    if training.trajectories is None:
        return steps
    return min(steps, ceil(training.trajectories / (size * training.group_size)))


class Course:
    """The run's way through its stages; a run without any is one that says nothing about them.

    Args:
        config: the run's.
        ledger: where the beginning of a stage is recorded.
        trained: groups that were trained on before.

    Attributes:
        trained: groups that were trained on so far.
    """

    def __init__(self, config: Config, ledger: Ledger, trained: int) -> None:
        self.trained = trained
        self._config = config
        self._stages = config.training.stages
        self._ledger = ledger

    @property
    def config(self) -> Config:
        """The settings of the stage under way."""
        stage = self._stage
        return self._config if stage is None else within(self._config, stage)

    @property
    def figures(self) -> dict[str, int | str]:
        """Number and name of the stage under way, for the metrics."""
        record = self._ledger.state.stage
        return {} if record is None else {"stage": record.number, "stage_name": record.title}

    def affordable(self, tasks: Sequence[str]) -> list[str]:
        """The first of `tasks`, as many as `training.trajectories` still has rollouts for; without it all of them."""
        training = self._config.training
        if training.trajectories is None:
            return list(tasks)
        return list(tasks[: training.trajectories // training.group_size - self.trained])

    @property
    def steps_paid(self) -> float:
        """Whole steps that `training.trajectories` still has rollouts for; without it no end of them."""
        training = self._config.training
        if training.trajectories is None:
            return inf
        return ceil((training.trajectories // training.group_size - self.trained) / training.tasks_per_step)

    @property
    def stage_over(self) -> bool:
        """Whether the epoch under way, or just finished, is the last of its stage."""
        state, stage = self._ledger.state, self._stage
        if self._spent:
            return True
        if not self._stages:
            return state.epoch >= self._config.training.epochs
        return stage is not None and bool(ending(state, stage))

    @property
    def over(self) -> bool:
        """Whether it is the last of the run."""
        return self._spent or (self.stage_over and self._number == len(self._stages))

    @property
    def epochs_left(self) -> int:
        """Epochs after the one under way, if no stage ends early."""
        state, stage = self._ledger.state, self._stage
        if not self._stages:
            return self._config.training.epochs - state.epoch
        later = sum(each.epochs for each in self._stages[self._number :])
        if stage is None or state.stage is None:
            return later
        return later + max(0, stage.epochs - (state.epoch - state.stage.after_epoch))

    def proceed(self, step: int) -> bool:
        """Between two epochs: stay in the stage, or record that the next one begins; False after the last."""
        if self.over:
            return False
        if self._stages and (self._stage is None or self.stage_over):
            self._ledger.record([self._next(step)])
        return True

    def _next(self, step: int) -> StageStarted:
        state, before = self._ledger.state, self._stage
        stage = self._stages[self._number]
        reason = "" if before is None else ending(state, before)
        types = tuple(TaskType(kind) for kind in stage.task_types)
        reward = within(self._config, stage).reward.name
        return StageStarted(step, state.epoch, self._number + 1, stage.name, types, reward, reason)

    @property
    def _spent(self) -> bool:
        budget, size = self._config.training.trajectories, self._config.training.group_size
        return budget is not None and self.trained * size >= budget

    @property
    def _number(self) -> int:
        record = self._ledger.state.stage
        return 0 if record is None else record.number

    @property
    def _stage(self) -> StageConfig | None:
        return self._stages[self._number - 1] if self._number else None


def _count(stage: StageConfig, tasks: Sequence[Task]) -> int:
    count = sum(not stage.task_types or task.type.value in stage.task_types for task in tasks)
    if not count:
        raise StageError(
            f"stage {stage.name!r} trains on tasks of type {', '.join(stage.task_types)}; found none among the "
            f"{len(tasks)} training tasks. Change its task_types in training.stages, or tasks.train_count"
        )
    return count
