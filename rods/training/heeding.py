"""An engine that asks at each of its steps whether its episodes are still wanted.

Episodes end minutes apart when they are long, and a run that was asked to stop has not that long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch

from rods.rollout.engine import Completion, Engine, Request


class Heeding:
    """`engine` (`rods.rollout.engine.Engine`), for the episodes of one `collect`.

    Args:
        engine: does the work.
        on_progress: told (episodes done, episodes in all) at each step, and by `progress` when an episode has ended;
            may raise, and the episodes are then left in their middle.
        total: episodes in all.
    """

    def __init__(self, engine: Engine, on_progress: Callable[[int, int], None], total: int) -> None:
        self.name, self.max_length, self.version = engine.name, engine.max_length, engine.version
        self._engine, self._on_progress = engine, on_progress
        self._seen = (0, total)

    def progress(self, done: int, total: int) -> None:
        """An episode has ended."""
        self._seen = (done, total)
        self._on_progress(done, total)

    def submit(self, request: Request) -> None:
        """See `Engine`."""
        self._engine.submit(request)

    def step(self) -> list[Completion]:
        """See `Engine`."""
        self._on_progress(*self._seen)
        return self._engine.step()

    def update_weights(self, weights: Iterable[tuple[str, torch.Tensor]], version: int) -> None:
        """See `Engine`."""
        self._engine.update_weights(weights, version)

    def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """See `Engine`."""
        return self._engine.score(sequences)

    def sleep(self) -> None:
        """See `Engine`."""
        self._engine.sleep()

    def wake(self) -> None:
        """See `Engine`."""
        self._engine.wake()

    def close(self) -> None:
        """See `Engine`."""
        self._engine.close()
