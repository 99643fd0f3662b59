"""When retired tasks are looked at again: `buffer.review_epochs`.

In the paper retirement is final, although a policy forgets. Under our extension a variant that was retired as
mastered becomes active again some epochs later. If it is still mastered its next group retires it as before; if the
policy has lost it, it stays.
"""

from __future__ import annotations

from heapq import nsmallest

from rods.curriculum.events import TaskReadmitted
from rods.curriculum.pool import active_count, budget
from rods.curriculum.records import TaskRecord
from rods.curriculum.value import CurriculumState


def due(state: CurriculumState, step: int, epoch: int) -> list[TaskReadmitted]:
    """The mastered variants to look at again in `epoch`: longest unseen first, at most ⌊β·active⌋.

    They never push P_max over its border: no more than it leaves free.
    """
    pause = state.buffer.review_epochs
    if not pause:
        return []
    room = min(budget(state, active_count(state)), state.buffer.capacity - len(state.index.live))
    ripe = (
        record
        for record in map(state.tasks.__getitem__, state.index.mastered)
        if epoch - _last_seen(record) >= pause
    )
    chosen = nsmallest(max(0, room), ripe, key=lambda record: (_last_seen(record), record.id))
    return [TaskReadmitted(step, epoch, record.id) for record in chosen]


def _last_seen(record: TaskRecord) -> int:
    return record.statistics.last_epoch or 0
