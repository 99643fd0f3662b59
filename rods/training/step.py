"""One training step: roll out, judge, update, hand the new weights to the engine, and check that they arrived.

The engine samples with the weights of the step before, or of one more before that when rollouts overlap the
update (`rollout.one_step_off`). Rollouts of any other version, or an engine whose log-probabilities leave the
learner's, would train on the wrong distribution, so both end the run with an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import fmean

from rods.config import Config
from rods.curriculum.events import EvaluationDone
from rods.errors import RodsError
from rods.rollout.chat import Chat
from rods.rollout.engine import Engine
from rods.rollout.episode import Rollout
from rods.simulation.session import Session
from rods.tasks.model import Task
from rods.training import figures, machine, objective
from rods.training.checkpoint import Exports, Saves
from rods.training.heldout import Exam, evaluate
from rods.training.learner import Learner
from rods.training.sampling import Sampler, flat

_PROBES = 4  # sequences compared after each weight sync


class PolicyMismatchError(RodsError):
    """Engine and learner do not hold the same policy."""


@dataclass
class Stopwatch:
    """Seconds spent per phase of a step."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time inside to `seconds[name]`."""
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


@dataclass(frozen=True)
class StepResult:
    """What a step observed: one group of rollouts per task, and figures for the metrics file."""

    groups: list[list[Rollout]]
    metrics: dict[str, float]


class Stepper:
    """Runs training steps on one policy; `rods.training.protocols.Stepper` with a learner and an engine behind it.

    Args:
        config: the run's configuration.
        learner: holds the trained weights.
        engine: samples; must hold the learner's weights.
        chat: encodes conversations.
    """

    def __init__(self, config: Config, learner: Learner, engine: Engine, chat: Chat) -> None:
        self.rank, self.engine_name = learner.rank, engine.name
        self._config = config
        self._learner = learner
        self._engine = engine
        self._chat = chat
        self._sampler = Sampler(config, engine, chat)

    def start(self, step: int, tasks: Sequence[Task]) -> None:
        """Bring the engine to the learner's weights after `step` steps; compared on the openings of `tasks`.

        Raises:
            PolicyMismatchError: see `sync`.
        """
        config = self._config
        sessions = [Session(task, config.simulation, config.reward) for task in tasks[:_PROBES]]
        self.sync(step, [self._chat.opening(session)[: config.model.max_length] for session in sessions])

    def use(self, config: Config) -> None:
        """Draw rollouts by the settings of a stage; between epochs. Evaluations keep to the run's own."""
        self._sampler.use(config)

    def run(
        self,
        tasks: Sequence[Task],
        step: int,
        on_progress: Callable[[int, int], None],
        on_phase: Callable[[str], None],
        upcoming: Sequence[Task] = (),
    ) -> StepResult:
        """Train on one group of rollouts per task.

        Args:
            tasks: the step's tasks; the `upcoming` ones of the step before, if it had any.
            step: its number.
            on_progress: told (episodes done, episodes in all) while rolling out.
            on_phase: told when the sync begins, and "update" again with every micro-batch: a long update is no
                silence, a hung one is.
            upcoming: the next step's tasks, where they are known: with `rollout.one_step_off` their rollouts are
                drawn meanwhile.

        Raises:
            StalePolicyError: the rollouts are of older weights than allowed.
            PolicyMismatchError: the engine's policy is not the learner's after the update.
        """
        watch = Stopwatch()
        with watch.phase("rollout"):
            draw = self._sampler.take(tasks, step, on_progress)
        if self._config.rollout.one_step_off and upcoming:
            self._sampler.begin(upcoming, step + 1)
        else:
            self._engine.sleep()
        on_phase("update")
        with watch.phase("update"):
            update = objective.update(self._learner, draw.trained, partial(on_phase, "update"))
        load = machine.figures()
        with watch.phase("rollout"):
            self._sampler.wait(on_progress)
        self._engine.wake()
        on_phase("sync")
        with watch.phase("sync"):
            gap = self.sync(step, [rollout.token_ids for rollout in flat(draw.observed)[:_PROBES]])
        own = {
            "policy_lag": step - 1 - draw.version,
            "parity_gap": gap,
            "trained_tokens_per_second": update.get("tokens", 0.0) / watch.seconds["update"],
        }
        seconds = {f"seconds_{name}": value for name, value in watch.seconds.items()}
        return StepResult(draw.observed, {**figures.of_draw(tasks, draw), **update, **own, **load, **seconds})

    def sync(self, version: int, probes: Sequence[Sequence[int]]) -> float:
        """Copy the learner's weights into the engine and compare both on `probes`.

        Args:
            version: what the engine's rollouts will carry as `policy_version`.
            probes: token sequences; the first `_PROBES` of a step's rollouts in training.

        Returns:
            mean |log-probability(engine) − log-probability(learner)| over the probes' tokens.

        Raises:
            PolicyMismatchError: it exceeds `training.parity_tolerance`.
        """
        self._engine.update_weights(self._learner.weights(), version)
        engine = chain.from_iterable(self._engine.score(probes))
        learner = chain.from_iterable(self._learner.score(probes))
        gap = fmean(abs(a - b) for a, b in zip(engine, learner, strict=True))
        tolerance = self._config.training.parity_tolerance
        if not gap <= tolerance:
            raise PolicyMismatchError(
                f"after the weight sync of step {version} the {self._engine.name} engine's log-probabilities differ "
                f"from the learner's by {gap:.2e} on average, training.parity_tolerance is {tolerance:.2e}. "
                "A tensor did not arrive, or the two compute in different precision."
            )
        return gap

    def evaluate(
        self, tasks: Sequence[Task], exam: Exam, on_progress: Callable[[int, int], None]
    ) -> EvaluationDone:
        """See `rods.training.heldout.evaluate`. Collective."""
        return evaluate(self._config, self._engine, self._chat, tasks, exam, on_progress)

    def save(self, folder: Path) -> None:
        """Write the learner's state below `folder`. Collective."""
        self._learner.save(folder)

    def load(self, folder: Path) -> None:
        """Continue from what `save` wrote; `start` brings the engine along. Collective."""
        self._learner.load(folder)

    def capture(self) -> AbstractContextManager[Saves]:
        """Copy what `save` writes to host memory, until the next call. Collective; see `Learner.capture`."""
        return self._learner.capture()

    def capture_policy(self) -> Exports:
        """The policy in host memory, to be written as a plain Hugging Face folder. Collective."""
        return self._learner.capture_policy()

    def text(self, token_ids: Sequence[int]) -> str:
        """A transcript as text."""
        return self._chat.text(token_ids)

    def close(self) -> None:
        """Abandon rollouts under way and shut the engine down."""
        self._sampler.close()
        self._engine.close()
