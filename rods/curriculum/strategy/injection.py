"""When waiting variants become active: `buffer.injection`.

The paper stages them until the next epoch (`pool.inject`), 13 steps of waiting after one of synthesis. Our
extension `stream` lets them in at the next step; the share β still bounds what may enter within an epoch.
"""

from __future__ import annotations

from heapq import nsmallest

from rods.curriculum.events import VariantInjected
from rods.curriculum.pool import active_count, budget, queue_position
from rods.curriculum.value import CurriculumState


def between_steps(state: CurriculumState, step: int, epoch: int) -> list[VariantInjected]:
    """The variants that become active after `step`, within `epoch`: what β leaves of the epoch's share, in order.

    With `buffer.injection=epoch` there are none. The share is taken of the pool as it would be without what the epoch
    has let in, so that streaming admits no more than staging does.
    """
    if state.buffer.injection != "stream":
        return []
    entered = state.index.injected.get(epoch, 0)
    room = budget(state, active_count(state) - entered) - entered
    waiting = (state.tasks[task_id] for task_id in state.index.waiting)
    first = nsmallest(max(0, room), waiting, key=lambda one: queue_position(state, one))
    return [VariantInjected(step, epoch, record.id) for record in first]
