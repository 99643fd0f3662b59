"""Which tasks may become seeds, best first: `boundary.selection`.

The paper ranks by the latest group alone; the mean of 16 rollouts has a standard error of up to 0.125, so a task
may seem to be at the boundary by luck. Our extension `posterior` remembers earlier groups with forgetting.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

from rods.config import BoundaryConfig
from rods.curriculum.events import GroupObserved
from rods.curriculum.observed import observed_in, observed_records
from rods.curriculum.pool import active_ids
from rods.curriculum.records import TaskRecord
from rods.curriculum.shuffle import drawn
from rods.curriculum.value import CurriculumState
from rods.curriculum.zones import Zone, zone


class Selection(Protocol):
    """Ranks the tasks that may become seeds after a step."""

    def rank(self, state: CurriculumState, observed: Sequence[GroupObserved], step: int) -> list[TaskRecord]:
        """The tasks that may become seeds, best first; a function of its arguments alone.

        Raises:
            CurriculumError: a group that was not applied to the state at this step.
        """


class ByVariance:
    """The paper's: boundary tasks by falling φ(r̄) of the latest group, ties by task id."""

    def rank(self, state: CurriculumState, observed: Sequence[GroupObserved], step: int) -> list[TaskRecord]:
        """See `Selection.rank`."""
        return observed_in(Zone.BOUNDARY, state, observed, step)


class AtRandom:
    """Ablation "random seeds": all observed tasks, in an order that is a function of (run seed, step, ids)."""

    def rank(self, state: CurriculumState, observed: Sequence[GroupObserved], step: int) -> list[TaskRecord]:
        """See `Selection.rank`."""

        def drawn(record: TaskRecord) -> bytes:
            return hashlib.sha256(f"{state.seed}:{step}:{record.id}".encode()).digest()

        return sorted((record for record, _ in observed_records(state, observed, step)), key=drawn)


class Uniform:
    """Baseline "uniform fresh synthesis": the whole pool in a drawn order, whatever its tasks earn.

    That is every active task that was visited once, variants included, not only what this step observed: what becomes
    a seed then depends neither on rewards nor on the order of training. It looks at every task at each step.
    """

    def rank(self, state: CurriculumState, observed: Sequence[GroupObserved], step: int) -> list[TaskRecord]:
        """See `Selection.rank`."""
        records = map(state.tasks.__getitem__, drawn(active_ids(state), state.seed, step))
        return [record for record in records if record.statistics.count]


class ByPosterior:
    """Ours: by falling E[φ(p)] under a Beta posterior of the task's mean reward p; ties by task id.

    Only tasks whose posterior mean lies in the boundary zone are ranked.
    """

    def rank(self, state: CurriculumState, observed: Sequence[GroupObserved], step: int) -> list[TaskRecord]:
        """See `Selection.rank`."""
        found = []
        for record, _ in observed_records(state, observed, step):
            a, b = posterior([mean for _, mean in record.statistics.history], state.boundary)
            if zone(a / (a + b), state.boundary) is Zone.BOUNDARY:
                found.append((-expected_phi(a, b), record.id, record))
        return [record for *_, record in sorted(found, key=lambda item: item[:2])]


def posterior(means: Sequence[float], config: BoundaryConfig) -> tuple[float, float]:
    """Parameters (a, b) of the Beta posterior after groups with these mean rewards, oldest first.

    Uniform prior; the group observed i groups before the latest counts as forgetting^i · rollouts trials, of which
    the share r̄ succeeded. A reward between 0 and 1 carries at least as much information as a coin of the same mean,
    so the posterior is not too narrow. Means outside [0, 1] are taken as their nearest border.
    """
    a = b = 1.0
    weight = float(config.posterior_rollouts)
    for mean in reversed(means):
        share = min(max(mean, 0.0), 1.0)
        a += weight * share
        b += weight * (1 - share)
        weight *= config.posterior_forgetting
    return a, b


def expected_phi(a: float, b: float) -> float:
    """E[4p(1−p)] for p ~ Beta(a, b): 4ab / ((a + b)(a + b + 1))."""
    total = a + b
    return 4 * a * b / (total * (total + 1))


SELECTIONS: dict[str, Selection] = {
    "boundary": ByVariance(),
    "random": AtRandom(),
    "uniform": Uniform(),
    "posterior": ByPosterior(),
}
