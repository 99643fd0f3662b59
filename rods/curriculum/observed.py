"""The records of the groups that a step observed: what every decision after a step begins with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rods.curriculum.errors import CurriculumError
from rods.curriculum.events import GroupObserved
from rods.curriculum.records import TaskRecord
from rods.curriculum.value import CurriculumState
from rods.curriculum.zones import Zone, phi, zone


def observed_records(
    state: CurriculumState, observed: Sequence[GroupObserved], step: int
) -> Iterator[tuple[TaskRecord, float]]:
    """The records of the groups observed in a step with their mean rewards.

    Raises:
        CurriculumError: a group that was not applied to the state at this step.
    """
    for group in observed:
        record = state.tasks.get(group.task_id)
        if record is None or record.statistics.mean is None or record.statistics.last_step != step:
            raise CurriculumError(
                f"task {group.task_id!r}: expected its group of step {step} in the state, found step "
                f"{record and record.statistics.last_step}; fold the observations first, then decide"
            )
        yield record, record.statistics.mean


def observed_in(
    wanted: Zone, state: CurriculumState, observed: Sequence[GroupObserved], step: int
) -> list[TaskRecord]:
    """The records of those groups that lie in one zone, by falling φ of their mean reward; ties by task id.

    Raises:
        CurriculumError: as `observed_records`.
    """
    found = [
        (-phi(mean), record.id, record)
        for record, mean in observed_records(state, observed, step)
        if zone(mean, state.boundary) is wanted
    ]
    return [record for *_, record in sorted(found, key=lambda item: item[:2])]
