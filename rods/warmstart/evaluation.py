"""How good a checkpoint is: progress reward on fresh scripted tasks, at temperature 1 and greedy, by what they are.

Greedy stands beside temperature 1 because reinforcement learning gains at temperature 1 already by taking
back probability from wrong calls, which greedy decoding does at once; a rise of greedy is a new ability.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

from rods.config import BoundaryConfig, ModelConfig, RewardConfig, RolloutConfig, SimulationConfig
from rods.curriculum.zones import zone
from rods.rollout.chat import Chat, load_tokenizer
from rods.rollout.engine import build
from rods.rollout.episode import collect
from rods.tasks.model import Task
from rods.tasks.scripted import KINDS, TYPES, generate
from rods.warmstart.transcript import SYSTEM_PROMPT

_MODEL = ModelConfig(system_prompt=SYSTEM_PROMPT, tool_names_in_prompt=True)


def _world(task: Task) -> str:
    return " + ".join(task.classes)


def _requests(task: Task) -> str:
    """How many things the user asks for."""
    return str(sum(bool(turn.calls) for turn in task.turns))


GROUPINGS: Mapping[str, Callable[[Task], str]] = {
    "kind": lambda task: task.kind,
    "type": lambda task: task.type.value,
    "classes": _world,
    "requests": _requests,
}
"""Table → the row of a task."""


@dataclass(frozen=True)
class Figures:
    """Mean reward over all tasks, and per row of each table of `GROUPINGS`."""

    reward: float
    tables: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Evaluation:
    """Figures of one checkpoint.

    Attributes:
        tasks: number of tasks.
        plays: sampled episodes per task; greedy plays each task once.
        sampled: at temperature 1.
        greedy: on the same tasks.
        zones: share of the tasks whose sampled mean reward is hard, boundary, mastered (`BoundaryConfig`).
    """

    tasks: int
    plays: int
    sampled: Figures
    greedy: Figures
    zones: dict[str, float]


def evaluate(folder: Path, per_kind: int = 16, plays: int = 4, seed: int = 0) -> Evaluation:
    """Play fresh tasks with the checkpoint in `folder`, on the `hf` engine.

    Args:
        folder: a Hugging Face model folder.
        per_kind: tasks of each kind; the types take turns within a kind.
        plays: sampled episodes per task.
        seed: of the tasks (a random stream of its own) and of the sampling.
    """
    rng = random.Random(f"warm start evaluation {seed}")
    tasks = [
        generate(rng, kind, type=TYPES[place % len(TYPES)]) for place in range(per_kind) for kind in KINDS
    ]
    sampled = _play(folder, tasks, 1.0, plays, seed)
    zones = Counter(zone(reward, BoundaryConfig()).value for reward in sampled)
    return Evaluation(
        tasks=len(tasks),
        plays=plays,
        sampled=_figures(tasks, sampled),
        greedy=_figures(tasks, _play(folder, tasks, 0.0, 1, seed)),
        zones={name: count / len(tasks) for name, count in sorted(zones.items())},
    )


def _play(folder: Path, tasks: Sequence[Task], temperature: float, plays: int, seed: int) -> list[float]:
    """Mean reward of each task."""
    rollout = replace(RolloutConfig(engine="hf"), temperature=temperature)
    engine = build(folder, _MODEL, rollout, seed)
    try:
        chat = Chat(load_tokenizer(folder), _MODEL)
        groups = collect(engine, chat, tasks, plays, rollout, SimulationConfig(), RewardConfig(), seed)
    finally:
        engine.close()
    return [mean(rollout.reward for rollout in group) for group in groups]


def _figures(tasks: Sequence[Task], rewards: Sequence[float]) -> Figures:
    return Figures(mean(rewards), {name: _table(tasks, rewards, row) for name, row in GROUPINGS.items()})


def _table(tasks: Sequence[Task], rewards: Sequence[float], row: Callable[[Task], str]) -> dict[str, float]:
    rows = defaultdict(list)
    for task, reward in zip(tasks, rewards, strict=True):
        rows[row(task)].append(reward)
    return {name: mean(found) for name, found in sorted(rows.items())}
