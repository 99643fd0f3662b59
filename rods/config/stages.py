"""The run in stages: which tasks, which reward and how long, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rods.config import Config


@dataclass(frozen=True)
class StageConfig:
    """One stage; what is left empty or null is as in the run's other settings."""

    name: str = ""  # how the journal, the metrics and the report call it
    task_types: tuple[str, ...] = ()  # original tasks of these types; empty: all
    reward: str = ""  # progress | binary | format; "": reward.name
    hints: str = ""  # none | envtuning; "": simulation.hints
    synthesis: bool = True  # boundary tasks are handed to synthesis, where synthesis.enabled
    max_episode_tokens: int | None = None  # null: rollout.max_episode_tokens
    epochs: int = 5  # at most
    target_reward: float | None = None  # mean reward over target_steps that ends the stage; null: none does
    target_steps: int = 13  # the latest training steps that target_reward looks at
    patience: int = 0  # epochs in a row without a new best mean reward that end the stage; 0: none do


def planned_epochs(config: Config) -> int:
    """Epochs of the whole run, where no stage ends early."""
    stages = config.training.stages
    return sum(stage.epochs for stage in stages) if stages else config.training.epochs


def steps_vary(config: Config) -> bool:
    """Whether how many steps the run has depends on what happens in it: an epoch is as long as its pool."""
    training, buffer = config.training, config.buffer
    pool_changes = config.synthesis.enabled and buffer.capacity > 0
    return (
        pool_changes
        or bool(training.stages)
        or training.trajectories is not None
        or buffer.sampling != "once"
    )


def within(config: Config, stage: StageConfig) -> Config:
    """The run's settings during `stage`."""
    limit = stage.max_episode_tokens
    return replace(
        config,
        reward=replace(config.reward, name=stage.reward or config.reward.name),
        simulation=replace(config.simulation, hints=stage.hints or config.simulation.hints),
        synthesis=replace(config.synthesis, enabled=config.synthesis.enabled and stage.synthesis),
        rollout=config.rollout if limit is None else replace(config.rollout, max_episode_tokens=limit),
    )
