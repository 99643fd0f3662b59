"""A step's rollouts: drawn when they are needed, or ahead of time while the learner updates.

Ahead of time means one step off: the engine then holds the weights of the step before, which the learner's
truncated importance weights correct for. Whether a thread or a server does the work, the same tasks and seeds
give the same requests; only the weights that answer them are older.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from itertools import chain

from rods.config import Config
from rods.errors import RodsError
from rods.rollout import ranks
from rods.rollout.chat import Chat
from rods.rollout.engine import Engine
from rods.rollout.episode import Rollout, collect
from rods.tasks.model import Task
from rods.training.heeding import Heeding
from rods.training.objective import has_signal
from rods.training.patience import AbandonedError, shared

Group = list[Rollout]

_SEED_STRIDE = 2**32  # more than there are steps
_AGAIN_STRIDE = 2**96  # more than seed × _SEED_STRIDE
_POLL_S = 0.5


class StalePolicyError(RodsError):
    """Rollouts of weights that are older than the step may train on."""


@dataclass(frozen=True)
class Draw:
    """A step's rollouts.

    Attributes:
        observed: one group per task as first drawn: what the curriculum is told.
        trained: what the learner is given: groups drawn again stand in the place of those without signal.
        drawn_again: groups that were drawn beyond the first of each task.
        generated: tokens sampled in all draws, those that nothing came of included.
        version: of the weights that sampled them.
        seconds: from the first request to the last episode's end.
    """

    observed: list[Group]
    trained: list[Group]
    drawn_again: int
    generated: int
    version: int
    seconds: float


@dataclass(frozen=True)
class _Ahead:
    """Rollouts that were begun: for which step and tasks."""

    step: int
    tasks: tuple[str, ...]
    future: Future[Draw]


class Sampler:
    """Draws rollouts on one engine. Every rank draws a share of the tasks and gets all of the rollouts.

    Args:
        config: group size, sampling settings, seed, and how many groups may be drawn again.
        engine: samples; nobody else may use it between `begin` and `wait`.
        chat: encodes conversations.
    """

    def __init__(self, config: Config, engine: Engine, chat: Chat) -> None:
        self._config = config
        self._engine = engine
        self._chat = chat
        self._thread = ThreadPoolExecutor(1, "rollouts")
        self._ahead: _Ahead | None = None
        self._progress = (0, 0)
        self._abandoned = threading.Event()

    def use(self, config: Config) -> None:
        """Draw by these settings from now on; nothing may have been begun by others."""
        self._config = config

    def take(self, tasks: Sequence[Task], step: int, on_progress: Callable[[int, int], None]) -> Draw:
        """The rollouts of `step`: those that were begun for it and its tasks, else drawn now. Collective.

        Args:
            tasks: the step's, on every rank.
            step: its number.
            on_progress: told (episodes done, episodes in all) of this rank's share.

        Raises:
            StalePolicyError: the weights that sampled them are too old.
            AbandonedError: on every rank, since `on_progress` raised it on one.
        """
        rank, count = ranks.place()
        mine = len(tasks[rank::count]) * self._config.training.group_size
        shares = shared(lambda: self._own(tasks, step, on_progress), lambda: on_progress(mine, mine))
        return _joined(shares, len(tasks))

    def begin(self, tasks: Sequence[Task], step: int) -> None:
        """Start to draw the rollouts of `step` with the weights that the engine holds now.

        Raises:
            StalePolicyError: they would be too old for it.
        """
        self._refuse_stale(self._engine.version, step)
        self._progress = (0, 0)
        self._ahead = _Ahead(step, _ids(tasks), self._thread.submit(self._draw, tasks, step, self._note))

    def wait(self, on_progress: Callable[[int, int], None]) -> None:
        """Until the engine is idle; a failure of what was begun is raised."""
        if self._ahead is None:
            return
        while wait_for([self._ahead.future], _POLL_S).not_done:
            on_progress(*self._progress)
        self._ahead.future.result()

    def close(self) -> None:
        """Abandon what was begun and wait until the engine is idle."""
        self._abandoned.set()
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _own(self, tasks: Sequence[Task], step: int, on_progress: Callable[[int, int], None]) -> Draw:
        self.wait(on_progress)
        ahead, self._ahead = self._ahead, None
        if ahead is not None and (ahead.step, ahead.tasks) == (step, _ids(tasks)):
            return ahead.future.result()
        self._refuse_stale(self._engine.version, step)
        return self._draw(tasks, step, on_progress)

    def _draw(self, tasks: Sequence[Task], step: int, on_progress: Callable[[int, int], None]) -> Draw:
        rank, count = ranks.place()
        started = time.perf_counter()
        mine = tasks[rank::count]
        observed = self._collect(mine, step, 0, on_progress)
        # Every rank may spend its part, so that nobody has to know the others' rewards.
        budget = self._config.training.max_resamples
        left = budget // count + (rank < budget % count)
        draws = self._again(mine, observed, step, left, on_progress)
        trained = list(observed)
        for place, group in draws:
            trained[place] = group
        groups = [*observed, *(group for _, group in draws)]
        generated = sum(sum(rollout.mask) for rollout in flat(groups))
        seconds = time.perf_counter() - started
        return Draw(observed, trained, len(draws), generated, self._engine.version, seconds)

    def _again(
        self,
        tasks: Sequence[Task],
        groups: Sequence[Group],
        step: int,
        left: int,
        on_progress: Callable[[int, int], None],
    ) -> list[tuple[int, Group]]:
        """Draw groups without signal again, round after round, at most `left` in all: (place, group) each."""
        draws: list[tuple[int, Group]] = []
        training = self._config.training
        places = [place for place, group in enumerate(groups) if not has_signal(group, training)]
        attempt = 0
        while chosen := places[: left - len(draws)]:
            attempt += 1
            again = [tasks[place] for place in chosen]
            fresh = self._collect(again, step, attempt, on_progress)
            draws += zip(chosen, fresh, strict=True)
            places = [
                place for place, group in zip(chosen, fresh, strict=True) if not has_signal(group, training)
            ]
        return draws

    def _collect(
        self, tasks: Sequence[Task], step: int, attempt: int, on_progress: Callable[[int, int], None]
    ) -> list[Group]:
        config = self._config
        engine = Heeding(self._engine, on_progress, len(tasks) * config.training.group_size)
        return collect(
            engine,
            self._chat,
            tasks,
            config.training.group_size,
            config.rollout,
            config.simulation,
            config.reward,
            config.seed * _SEED_STRIDE + step + attempt * _AGAIN_STRIDE,
            engine.progress,
        )

    def _note(self, done: int, total: int) -> None:
        self._progress = (done, total)
        if self._abandoned.is_set():
            raise AbandonedError("nobody waits for these rollouts any more")

    def _refuse_stale(self, version: int, step: int) -> None:
        most = 1 if self._config.rollout.one_step_off else 0
        if not 0 <= step - 1 - version <= most:
            raise StalePolicyError(
                f"step {step} must train on rollouts of the weights after step {step - 1}, or at most {most} older; "
                f"the engine holds those after step {version}: the weight sync of a step before was left out"
            )


def _ids(tasks: Sequence[Task]) -> tuple[str, ...]:
    return tuple(task.id for task in tasks)


def varied(group: Sequence[Rollout]) -> bool:
    """Whether the group's rewards differ: otherwise its advantages are all 0."""
    return len({rollout.reward for rollout in group}) > 1


def _joined(shares: Sequence[Draw], tasks: int) -> Draw:
    """All ranks' shares, in the order of the step's tasks."""
    if len(shares) == 1:
        return shares[0]
    return Draw(
        _dealt([share.observed for share in shares], tasks),
        _dealt([share.trained for share in shares], tasks),
        sum(share.drawn_again for share in shares),
        sum(share.generated for share in shares),
        min(share.version for share in shares),
        max(share.seconds for share in shares),
    )


def _dealt(shares: Sequence[Sequence[Group]], tasks: int) -> list[Group]:
    return [shares[place % len(shares)][place // len(shares)] for place in range(tasks)]


def flat(groups: Iterable[Sequence[Rollout]]) -> list[Rollout]:
    """The rollouts of all groups."""
    return list(chain.from_iterable(groups))
