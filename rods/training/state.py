"""A learner on disk: what `Learner.save` writes and `Learner.load` continues from.

`model/` is DeepSpeed's (weights, optimizer, schedule; one shard per rank), under PPO `critic/` likewise,
`learner.json` says by whom it was written, `rng_rank*.pt` holds the random states.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rods.errors import RodsError
from rods.training import capture, resharding, together
from rods.training.capture import FACTS, Captured
from rods.training.resharding import Saved

if TYPE_CHECKING:
    from rods.training.learner import Learner

_ENGINE, _CRITIC = "model", "critic"


class StateError(RodsError):
    """Saved state that this learner cannot continue from."""


def take(learner: Learner, keep: Callable[[dict[str, Any]], Any]) -> Captured:
    """The learner's state as the files it becomes. Collective.

    Args:
        keep: called with each file's content: copies it, or returns it as it is.
    """
    files: dict[str, Any] = {}
    for name, engine in _engines(learner).items():
        files |= capture.deepspeed_files(engine, name, keep)
    files[_rng_name(learner.rank)] = _random_state(learner)
    return Captured(learner.rank, files, _meta(learner) | _steps(learner))


def save(learner: Learner, folder: Path) -> None:
    """Write the learner's state below `folder`; returns on every rank when all have written.

    Raises:
        OSError, RuntimeError: this rank could not.
        PeerError: another one could not.
    """
    together.all_or_none(lambda: take(learner, lambda content: content).save(folder))


def load(learner: Learner, folder: Path) -> None:
    """Put the learner into the state that `save` wrote, on as many ranks or on others (`resharding`). Collective.

    Raises:
        StateError: files are missing, or the ZeRO stage or algorithm differs.
        ReshardingError: it was written by another number of ranks and cannot be cut anew.
    """
    facts = _facts(learner, folder)
    saved = int(facts["world_size"])
    if saved == learner.world_size:
        _load_engines(learner, folder)
    else:
        resharding.load(_engines(learner), Saved(folder, saved, learner.training.zero_stage))
    _restore_random_state(learner, torch.load(folder / _rng_name(learner.rank % saved), weights_only=True))
    learner.steps = facts["steps"]
    if learner.critic is not None:
        learner.critic.steps = facts["critic_steps"]


def _facts(learner: Learner, folder: Path) -> dict[str, Any]:
    """What `learner.json` says, where this learner can continue from it."""
    for name in (FACTS, _rng_name(0), _ENGINE):
        if not (folder / name).exists():
            raise StateError(
                f"checkpoint {folder}: expected {name}, found none; resume from another checkpoint"
            )
    found: dict[str, Any] = json.loads((folder / FACTS).read_text())
    for key in ("zero_stage", "algorithm"):
        wanted = _meta(learner)[key]
        if found.get(key) != wanted:
            raise StateError(
                f"checkpoint {folder} was written with {key} = {found.get(key)}, this run has {wanted}; resume with "
                f"{key} = {found.get(key)}"
            )
    return found


def _load_engines(learner: Learner, folder: Path) -> None:
    for name, engine in _engines(learner).items():
        loaded, _ = engine.load_checkpoint(str(folder), tag=name)
        if loaded is None:
            raise StateError(
                f"checkpoint {folder}: DeepSpeed found no {name} to load; resume from another checkpoint"
            )


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
