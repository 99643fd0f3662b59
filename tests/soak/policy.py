"""A policy that is one hash: cheap, deterministic, and unforgiving.

Its state is chained over every step and every reward, and every reward depends on it. A resume that skips a
step, repeats one, or loads the state of another therefore changes all rewards that follow, and with them the
curriculum's whole history.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass
from pathlib import Path

from rods.config import Config
from rods.curriculum.events import EvaluationDone
from rods.exchange.atomic import make_dirs, read_json, write_json
from rods.exchange.rundir import RunDir
from rods.roles.train import train
from rods.rollout.episode import Rollout
from rods.simulation.session import Outcome
from rods.tasks.model import Task
from rods.tasks.taskset import TaskSet
from rods.training.heldout import Exam, graded

STATE = "chain.json"
_LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class StepResult:
    """Rewards of one step, as rollouts without tokens."""

    groups: list[list[Rollout]]
    metrics: dict[str, float]


class ChainPolicy:
    """Stands where learner and engine stand."""

    rank = 0
    engine_name = "chain"

    def __init__(self, config: Config) -> None:
        self._config = config
        self._steps = 0
        self._chain = _digest("start", config.seed)

    def start(self, step: int, tasks: Sequence[Task]) -> None:
        """Refuse to go on from another step than the one that was loaded."""
        if step != self._steps:
            raise AssertionError(f"the loop continues after step {step}, the policy holds step {self._steps}")

    def use(self, config: Config) -> None:
        """A stage changes the rewards, and with them all that follows."""
        self._config = config

    def run(
        self,
        tasks: Sequence[Task],
        step: int,
        on_progress: Callable[[int, int], None],
        on_phase: Callable[[str], None],
        upcoming: Sequence[Task] = (),
    ) -> StepResult:
        """Draw the rewards, then learn from them."""
        if step != self._steps + 1:
            raise AssertionError(f"step {step} after step {self._steps}")
        groups = [self._group(task, step) for task in tasks]
        on_progress(len(tasks), len(tasks))
        on_phase("update")
        rewards = [[rollout.reward for rollout in group] for group in groups]
        self._chain = _digest(self._chain, step, rewards)
        self._steps = step
        return StepResult(groups, {"reward_mean": sum(map(sum, rewards)) / sum(map(len, rewards))})

    def evaluate(
        self, tasks: Sequence[Task], exam: Exam, on_progress: Callable[[int, int], None]
    ) -> EvaluationDone:
        """Figures that the state decides."""
        draw = self._draw(f"{exam.split} {exam.mode.value}")
        return graded(exam, tasks, {task.id: draw.random() for task in tasks})

    def save(self, folder: Path) -> None:
        """Write step and state."""
        make_dirs(folder)
        write_json(folder / STATE, {"steps": self._steps, "chain": self._chain})

    def load(self, folder: Path) -> None:
        """Continue from what `save` wrote."""
        body = read_json(folder / STATE)
        self._steps, self._chain = body["steps"], body["chain"]

    def capture(self) -> AbstractContextManager[ChainPolicy]:
        """The state as it is, whatever steps follow."""
        return nullcontext(copy(self))

    def capture_policy(self) -> ChainPolicy:
        """Likewise, as the run's policy."""
        return copy(self)

    def export(self, folder: Path) -> None:
        """Write the state as a policy."""
        self.save(folder)

    def text(self, token_ids: Sequence[int]) -> str:
        """Nothing was said."""
        return ""

    def close(self) -> None:
        """Nothing is held."""

    def _group(self, task: Task, step: int) -> list[Rollout]:
        draw = self._draw(step, task.id)
        mean = draw.choice(_LEVELS)
        rewards = [float(draw.random() < mean) for _ in range(self._config.training.group_size)]
        nothing = Outcome((), (), len(task.turns), 0)
        return [
            Rollout(task.id, index, (), (), (), (), reward, nothing, step - 1, "finished")
            for index, reward in enumerate(rewards)
        ]

    def _draw(self, *about: object) -> random.Random:
        return random.Random(_digest(self._chain, self._config.seed, *about))


def main(run_dir: str, attempt: int) -> int:
    """The training role with this policy."""
    return train(RunDir.open(Path(run_dir)), attempt, build)


def build(config: Config, tasks: TaskSet) -> ChainPolicy:
    """The policy of a run."""
    return ChainPolicy(config)


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
