"""A small run to write curriculum tests with: tasks by name, and the loop's steps in its order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rods.config import BoundaryConfig, BufferConfig
from rods.curriculum import boundary, pool
from rods.curriculum.events import (
    EpochFinished,
    EpochStarted,
    Event,
    GroupObserved,
    SeedClosed,
    SeedEmitted,
    SeedOutcome,
    VariantArrived,
    VariantRefused,
)
from rods.curriculum.state import CurriculumState, fold, initial
from rods.tasks.model import Origin, Task, TaskType, Turn

QUOTAS = {"base": 4, "miss_func": 4, "miss_param": 4, "long_context": 4}


def seed_task(name: str, type: TaskType = TaskType.BASE) -> Task:
    return Task(name, type, ("Api",), {"world": name}, (Turn(f"please {name}", ()),), kind="family")


def variant_task(name: str, root: str, content: str = "", type: TaskType = TaskType.BASE) -> Task:
    turns = (Turn(f"please {content or name}", ()),)
    return Task(name, type, ("Api",), {}, turns, origin=Origin.VARIANT, seed_id=root, kind="family")


class Run:
    """Folds events as the training loop does, keeping all of them."""

    def __init__(
        self,
        seeds: Sequence[Task],
        boundary_config: BoundaryConfig | None = None,
        buffer_config: BufferConfig | None = None,
    ) -> None:
        config = boundary_config or BoundaryConfig(quotas=dict(QUOTAS))
        self.start: CurriculumState = initial(seeds, config, buffer_config or BufferConfig())
        self.state = self.start
        self.events: list[Event] = []

    def take(self, events: Iterable[Event]) -> None:
        events = list(events)
        self.state = fold(self.state, events)
        self.events.extend(events)

    def open_epoch(self) -> None:
        step, epoch = self.state.step, self.state.epoch + 1
        self.take(pool.inject(self.state, step, epoch))
        self.take([EpochStarted(step, epoch, len(pool.active(self.state)))])

    def close_epoch(self) -> None:
        self.take([EpochFinished(self.state.step, self.state.epoch)])

    def observe(self, step: int, rewards: dict[str, tuple[float, ...]]) -> list[GroupObserved]:
        observed = [GroupObserved(step, self.state.epoch, name, values) for name, values in rewards.items()]
        self.take(observed)
        return observed

    def select(self, observed: Sequence[GroupObserved]) -> list[SeedEmitted]:
        seeds = boundary.select(self.state, observed, self.state.step, self.state.epoch)
        self.take(seeds)
        return seeds

    def offer(self, task: Task, key: str, index: int = 0) -> VariantArrived | VariantRefused:
        event = pool.admit(self.state, task, key, index, self.state.step, self.state.epoch)
        self.take([event])
        return event

    def close_seed(self, key: str, outcome: SeedOutcome = SeedOutcome.PUBLISHED) -> None:
        self.take([SeedClosed(self.state.step, self.state.epoch, key, outcome, "")])

    def emit(self, step: int, name: str) -> str:
        """Observe `name` at the middle of the boundary, emit it, and return the request's key."""
        (seed,) = self.select(self.observe(step, {name: (1.0, 0.0)}))
        return seed.key


def run_with_variants(
    names: Sequence[str],
    buffer_config: BufferConfig,
    boundary_config: BoundaryConfig | None = None,
) -> Run:
    """A run at the start of epoch 2: seeds a to e, and these variants active, as far as β allows."""
    run = Run([seed_task(name) for name in "abcde"], boundary_config, buffer_config)
    run.open_epoch()
    key = run.emit(1, "a")
    for index, name in enumerate(names):
        assert isinstance(run.offer(variant_task(name, "a"), key, index), VariantArrived)
    run.close_seed(key)
    run.close_epoch()
    run.open_epoch()
    return run
