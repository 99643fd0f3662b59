"""Training runs whose policies are evaluated, without a training."""

from __future__ import annotations

from pathlib import Path

import yaml

from launchers.identity import plain
from rods.config import Config, ModelConfig, RolloutConfig, TasksConfig, TrainingConfig
from rods.exchange.rundir import RunDir
from rods.training import checkpoint
from rods.training.checkpoint import Position
from rods.training.learner import Learner


def made_run(tmp_path: Path, start: Path) -> RunDir:
    """A run directory with its configuration."""
    run = RunDir.create(tmp_path / "runs", "made", "0" * 64)
    config = Config(
        model=ModelConfig(path=str(start), max_length=512, system_prompt="Use the file tools."),
        rollout=RolloutConfig(engine="hf", max_message_tokens=8),
        tasks=TasksConfig(train_count=2, heldout_count=3),
    )
    run.config_file.write_text(yaml.safe_dump(plain(config)))
    return run


def checkpointed(run: RunDir, weights: Path, zero_stage: int, step: int = 7) -> Path:
    """A checkpoint of the weights in a folder, the only one that is kept."""
    training = TrainingConfig(zero_stage=zero_stage, kl_coefficient=0.0)
    learner = Learner(weights, ModelConfig(max_length=512), training, 1, 0)
    return checkpoint.save(run, Position(step, 1, 0), learner, {}, keep=1)
