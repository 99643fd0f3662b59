"""Held-out evaluation during a run: sampled at temperature 1 beside greedy.

Both are reported because reinforcement learning can raise the sampled reward by sharpening alone; only the
greedy figure tells whether the policy can do more than before. Whatever a stage trains on, what is evaluated is the
progress reward under the run's own settings, so that all figures of a run can be laid side by side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

from rods.config import Config
from rods.curriculum.events import EvaluationDone, EvaluationMode
from rods.rollout.chat import Chat
from rods.rollout.engine import Engine
from rods.rollout.episode import collect
from rods.tasks.model import Task

_TEMPERATURES = {EvaluationMode.SAMPLED: 1.0, EvaluationMode.GREEDY: 0.0}


def evaluate(
    config: Config,
    engine: Engine,
    chat: Chat,
    tasks: Sequence[Task],
    step: int,
    epoch: int,
    on_progress: Callable[[int, int], None],
) -> list[EvaluationDone]:
    """Mean progress reward over `tasks`, one episode each, sampled and greedy, in all and by kind.

    A task without a kind counts under its type.

    The sampling seeds do not depend on the step, so two evaluations differ by their weights only.
    `on_progress` is told (episodes done, episodes in all) of each of the two.
    """
    return [_evaluate(config, engine, chat, tasks, step, epoch, on_progress, mode) for mode in EvaluationMode]


def _evaluate(
    config: Config,
    engine: Engine,
    chat: Chat,
    tasks: Sequence[Task],
    step: int,
    epoch: int,
    on_progress: Callable[[int, int], None],
    mode: EvaluationMode,
) -> EvaluationDone:
    rollout = replace(config.rollout, temperature=_TEMPERATURES[mode], top_p=1.0)
    reward = replace(config.reward, name="progress")
    groups = collect(engine, chat, tasks, 1, rollout, config.simulation, reward, config.seed, on_progress)
    by_kind: dict[str, list[float]] = defaultdict(list)
    for task, group in zip(tasks, groups, strict=True):
        by_kind[task.kind or task.type.value].append(group[0].reward)
    mean = fmean(reward for rewards in by_kind.values() for reward in rewards)
    kinds = {kind: fmean(rewards) for kind, rewards in sorted(by_kind.items())}
    return EvaluationDone(step, epoch, "heldout", mode, mean, kinds, len(tasks))
