"""Which active tasks an epoch visits, and how often: `buffer.sampling`.

The paper visits each once. Prioritised replay is the baseline that spends the same rollouts on the tasks with the
most signal without making new ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rods.curriculum.pool import active_ids, epoch_order
from rods.curriculum.shuffle import fractions, shuffled
from rods.curriculum.value import CurriculumState
from rods.curriculum.zones import phi

FLOOR = 0.1
"""Weight of a task without any signal in its latest group: it must be seen now and then to be known at all."""


class Sampling(Protocol):
    """Orders an epoch."""

    def order(self, state: CurriculumState, seed: int, epoch: int, per_step: int) -> tuple[str, ...]:
        """Task ids in the order of training, none twice within a step of `per_step`; a function of its arguments."""


class EachOnce:
    """The paper's: every active task once, shuffled."""

    def order(self, state: CurriculumState, seed: int, epoch: int, per_step: int) -> tuple[str, ...]:
        """See `Sampling.order`."""
        return epoch_order(state, seed, epoch)


class Prioritised:
    """As many visits as there are active tasks, shared out by FLOOR + φ(r̄); never observed counts as φ = 1.

    Shares are rounded by systematic sampling, so a task with weight w gets ⌊w·n/Σ⌋ or ⌈w·n/Σ⌉ visits, spread evenly
    over the epoch. Visits that would fall into one step twice move to later steps; those that find none are left out.
    """

    def order(self, state: CurriculumState, seed: int, epoch: int, per_step: int) -> tuple[str, ...]:
        """See `Sampling.order`."""
        ids = shuffled(active_ids(state), seed, epoch)
        if not ids:
            return ()
        visits = _systematic(np.array([_weight(state, task_id) for task_id in ids]), seed, epoch)
        phases = fractions(ids, seed, epoch)
        positions = [
            ((visit + phase) / count, task_id)
            for task_id, count, phase in zip(ids, visits.tolist(), phases.tolist(), strict=True)
            for visit in range(count)
        ]
        return tuple(spread((task_id for _, task_id in sorted(positions)), per_step))


def spread(ids: Iterable[str], per_step: int) -> list[str]:
    """The ids in nearly their order, moved back so that no id is twice among consecutive `per_step`-sized steps.

    What cannot be placed at the end is left out.
    """
    coming, late = deque(ids), deque[str]()
    placed: list[str] = []
    while coming or late:
        step = _one_step(coming, late, per_step)
        placed += step
        if len(step) < per_step:
            break
    return placed


def _one_step(coming: deque[str], late: deque[str], per_step: int) -> list[str]:
    """Take the next step's ids, late ones first; what is in it already becomes late."""
    step: dict[str, None] = {}
    again = deque[str]()
    for source in (late, coming):
        while source and len(step) < per_step:
            task_id = source.popleft()
            if task_id in step:
                again.append(task_id)
            else:
                step[task_id] = None
    late.extendleft(reversed(again))
    return list(step)


def _weight(state: CurriculumState, task_id: str) -> float:
    mean = state.tasks[task_id].statistics.mean
    return FLOOR + (1.0 if mean is None else max(0.0, phi(mean)))


def _systematic(weights: NDArray[np.float64], seed: int, epoch: int) -> NDArray[np.int64]:
    """Visits of each task, as many in all as there are tasks: one comb over the cumulative weights."""
    count = len(weights)
    start = fractions(("comb",), seed, epoch)[0]
    teeth = np.floor(np.cumsum(weights) * (count / weights.sum()) + start)
    teeth[-1] = count  # rounding must not lose the last one
    return np.diff(teeth, prepend=0.0).astype(np.int64)


SAMPLINGS: dict[str, Sampling] = {"once": EachOnce(), "prioritised": Prioritised()}


def order(state: CurriculumState, seed: int, epoch: int, per_step: int) -> Sequence[str]:
    """The epoch's order as `buffer.sampling` says."""
    return SAMPLINGS[state.buffer.sampling].order(state, seed, epoch, per_step)
