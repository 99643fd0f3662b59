"""How deep variants shall be, relative to their seeds: `boundary.depth_shift`.

The paper's variants are as deep as their seeds, and its seeds lie in the boundary zone: when the policy has left that
zone nothing new comes. Our extension `adaptive` then takes what the zone lacks from the zone beside it that holds more:
of a mastered task a variant one step deeper may be at the boundary, of a hard one a variant one step shallower.
"""

from __future__ import annotations

from collections.abc import Sequence

from rods.curriculum.events import GroupObserved
from rods.curriculum.observed import observed_in
from rods.curriculum.records import TaskRecord
from rods.curriculum.value import CurriculumState
from rods.curriculum.zones import Zone

_SOURCES = {1: Zone.MASTERED, -1: Zone.HARD}


def shift(state: CurriculumState) -> int:
    """What seeds from beside the boundary zone are asked for now: 1 deeper, -1 shallower variants; 0: none is taken.

    0 while the zone holds a share of `boundary.dry_below` or more of the active tasks that were observed, and where
    there are as many hard tasks as mastered ones.
    """
    if state.boundary.depth_shift != "adaptive":
        return 0
    hard, near, mastered = (
        state.index.count("zone", name) for name in (Zone.HARD, Zone.BOUNDARY, Zone.MASTERED)
    )
    if near >= state.boundary.dry_below * (hard + near + mastered):
        return 0
    return (mastered > hard) - (mastered < hard)


def beside(
    state: CurriculumState, observed: Sequence[GroupObserved], step: int, moved: int
) -> list[TaskRecord]:
    """The tasks that a step observed in the zone that `moved` draws from, nearest to the boundary first; ties by id.

    Raises:
        CurriculumError: a group that was not applied to the state at this step.
    """
    return observed_in(_SOURCES[moved], state, observed, step) if moved else []
