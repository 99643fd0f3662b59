"""One evaluation of the policy during a run: sampled at temperature 1, or greedy.

Reinforcement learning can raise the sampled reward by sharpening alone; only the greedy figure tells whether the
policy can do more than before. Whatever a stage trains on, what is evaluated is the progress reward under the run's own
settings, so that all figures of a run can be laid side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from rods.config import Config
from rods.curriculum.events import EvaluationDone, EvaluationMode
from rods.rollout import ranks
from rods.rollout.chat import Chat
from rods.rollout.engine import Engine
from rods.rollout.episode import collect
from rods.tasks.model import Task
from rods.training.heeding import Heeding
from rods.training.patience import shared

_TEMPERATURES = {EvaluationMode.SAMPLED: 1.0, EvaluationMode.GREEDY: 0.0}


@dataclass(frozen=True)
class Exam:
    """An evaluation that is asked for.

    Attributes:
        split: which of the run's tasks these are: heldout or validation.
        mode: how messages are decoded.
        step, epoch: where the run stands.
    """

    split: str
    mode: EvaluationMode
    step: int
    epoch: int


def evaluate(
    config: Config,
    engine: Engine,
    chat: Chat,
    tasks: Sequence[Task],
    exam: Exam,
    on_progress: Callable[[int, int], None],
) -> EvaluationDone:
    """Progress reward and accuracy over `tasks`, one episode each. Every rank plays a share of them. Collective.

    The sampling seeds depend on the run's seed and the task only, and none is a training rollout's: two evaluations
    differ by their weights, and training by none of them.

    Args:
        tasks: with distinct ids, the same on every rank.
        on_progress: told (episodes done, episodes in all) of this rank's share.

    Raises:
        AbandonedError: on every rank, since `on_progress` raised it on one.
    """
    rank, count = ranks.place()
    mine = tasks[rank::count]
    rollout = replace(config.rollout, temperature=_TEMPERATURES[exam.mode], top_p=1.0)
    reward = replace(config.reward, name="progress")

    def played() -> dict[str, float]:
        heeding = Heeding(engine, on_progress, len(mine))
        settings = (rollout, config.simulation, reward, config.seed)
        groups = collect(heeding, chat, mine, 1, *settings, heeding.progress)
        return {group[0].task_id: group[0].reward for group in groups}

    shares = shared(played, lambda: on_progress(len(mine), len(mine)))
    scores = {name: score for share in shares for name, score in share.items()}
    return graded(exam, tasks, scores)


def graded(exam: Exam, tasks: Sequence[Task], scores: Mapping[str, float]) -> EvaluationDone:
    """What `scores`, the progress reward of each of `tasks`, come to. A task without a kind counts under its type."""
    kinds = [task.kind or task.type.value for task in tasks]
    types = [task.type.value for task in tasks]
    rewards = [scores[task.id] for task in tasks]
    passed = [float(reward == 1.0) for reward in rewards]
    return EvaluationDone(
        step=exam.step,
        epoch=exam.epoch,
        split=exam.split,
        mode=exam.mode,
        mean=fmean(rewards),
        accuracy=fmean(passed),
        by_kind=_means(kinds, rewards),
        by_type=_means(types, rewards),
        accuracy_by_type=_means(types, passed),
        scores={task.id: reward for task, reward in zip(tasks, rewards, strict=True)},
        count=len(tasks),
    )


def _means(names: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    return {
        name: fmean(value for own, value in zip(names, values, strict=True) if own == name)
        for name in sorted(set(names))
    }
