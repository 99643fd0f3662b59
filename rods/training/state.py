"""A learner on disk: what `Learner.save` writes and `Learner.load` continues from.

`model/` is DeepSpeed's (weights, optimizer, schedule; one shard per rank), under PPO `critic/` likewise,
`learner.json` says by whom it was written, `rng_rank*.pt` holds the random states.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rods.errors import RodsError
from rods.training import together

if TYPE_CHECKING:
    from rods.training.learner import Learner

_ENGINE, _CRITIC = "model", "critic"
_META = "learner.json"


class StateError(RodsError):
    """Saved state that this learner cannot continue from."""


def save(learner: Learner, folder: Path) -> None:
    """Write the learner's state below `folder`; returns on every rank when all have written.

    Raises:
        OSError, RuntimeError: this rank could not.
        PeerError: another one could not.
    """

    def write() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, engine in _engines(learner).items():
            engine.save_checkpoint(str(folder), tag=name, save_latest=False)
        torch.save(_random_state(learner), folder / _rng_name(learner.rank))
        if learner.rank == 0:
            (folder / _META).write_text(json.dumps(_meta(learner) | _steps(learner)))

    together.all_or_none(write)


def load(learner: Learner, folder: Path) -> None:
    """Put the learner into the state that `save` wrote.

    Raises:
        StateError: files are missing, or the world size, ZeRO stage or algorithm differs.
    """
    for path in (folder / _META, folder / _rng_name(learner.rank), folder / _ENGINE):
        if not path.exists():
            raise StateError(
                f"checkpoint {folder}: expected {path.name}, found none; resume from another checkpoint"
            )
    found = json.loads((folder / _META).read_text())
    for key, wanted in _meta(learner).items():
        if found.get(key) != wanted:
            raise StateError(
                f"checkpoint {folder} was written with {key} = {found.get(key)}, this run has {wanted}; resume with "
                f"{key} = {found.get(key)}"
            )
    for name, engine in _engines(learner).items():
        loaded, _ = engine.load_checkpoint(str(folder), tag=name)
        if loaded is None:
            raise StateError(
                f"checkpoint {folder}: DeepSpeed found no {name} to load; resume from another checkpoint"
            )
    _restore_random_state(learner, torch.load(folder / _rng_name(learner.rank), weights_only=True))
    learner.steps = found["steps"]
    if learner.critic is not None:
        learner.critic.steps = found["critic_steps"]


def _engines(learner: Learner) -> dict[str, Any]:
    """DeepSpeed's engines by the name of their folder."""
    critic = {} if learner.critic is None else {_CRITIC: learner.critic.engine}
    return {_ENGINE: learner.engine} | critic


def _meta(learner: Learner) -> dict[str, Any]:
    training = learner.training
    return {
        "world_size": learner.world_size,
        "zero_stage": training.zero_stage,
        "algorithm": training.algorithm,
    }


def _steps(learner: Learner) -> dict[str, int]:
    critic = {} if learner.critic is None else {"critic_steps": learner.critic.steps}
    return {"steps": learner.steps} | critic


def _rng_name(rank: int) -> str:
    return f"rng_rank{rank}.pt"


def _random_state(learner: Learner) -> dict[str, torch.Tensor]:
    states = {"order": learner.order.get_state(), "torch": torch.get_rng_state()}
    if learner.device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state()
    if learner.critic is not None:
        states["critic_order"] = learner.critic.order.get_state()
    return states


def _restore_random_state(learner: Learner, states: dict[str, torch.Tensor]) -> None:
    learner.order.set_state(states["order"])
    torch.set_rng_state(states["torch"])
    if learner.device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"])
    if learner.critic is not None:
        learner.critic.order.set_state(states["critic_order"])
