"""Boundary detection against examples computed by hand from the paper's formulas."""

import math
from dataclasses import replace

import pytest
from curriculum_examples import Run, seed_task, variant_task

from rods.config import BoundaryConfig, BufferConfig
from rods.curriculum.boundary import select
from rods.curriculum.errors import CurriculumError
from rods.curriculum.events import GroupObserved
from rods.curriculum.zones import Zone, phi, zone
from rods.tasks.model import TaskType

MEAN_75, MEAN_50, MEAN_25 = (1.0, 1.0, 1.0, 0.0), (1.0, 1.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)
HARD, MASTERED = (0.0,) * 4, (1.0,) * 4
GROUPS = {
    "b1": MEAN_25,
    "b2": MEAN_75,
    "b3": MEAN_50,
    "b4": HARD,
    "b5": MASTERED,
    "f1": MEAN_50,
    "f2": MEAN_25,
    "l1": MEAN_50,
}
TYPES = {"b": TaskType.BASE, "f": TaskType.MISS_FUNC, "l": TaskType.LONG_CONTEXT}


def _run(config: BoundaryConfig) -> Run:
    run = Run([seed_task(name, TYPES[name[0]]) for name in GROUPS], config)
    run.open_epoch()
    return run


def _selected(config: BoundaryConfig, groups: dict[str, tuple[float, ...]]) -> list[str]:
    run = _run(config)
    return [seed.task_id for seed in run.select(run.observe(1, groups))]


@pytest.mark.parametrize(
    ("mean", "expected"),
    [
        (0.0, Zone.HARD),
        (math.nextafter(0.2, 0), Zone.HARD),
        (0.2, Zone.BOUNDARY),
        (0.5, Zone.BOUNDARY),
        (0.85, Zone.BOUNDARY),
        (math.nextafter(0.85, 1), Zone.MASTERED),
        (1.0, Zone.MASTERED),
    ],
)
def test_zone_borders_belong_to_the_boundary(mean, expected):
    assert zone(mean, BoundaryConfig()) is expected


def test_phi_by_hand():
    assert [phi(mean) for mean in (0.0, 0.25, 0.5, 0.75, 1.0)] == [0.0, 0.75, 1.0, 0.75, 0.0]


def test_top_phi_up_to_each_quota_ties_by_id():
    # φ: b3 = f1 = l1 = 1, b1 = b2 = f2 = 0.75; b4, b5 outside the boundary; long_context has no quota.
    config = BoundaryConfig(max_seeds=3, quotas={"base": 2, "miss_func": 1})
    assert _selected(config, GROUPS) == ["b3", "f1", "b1"]
    assert _selected(config, dict(reversed(GROUPS.items()))) == ["b3", "f1", "b1"]


def test_unused_quota_is_not_redistributed():
    config = BoundaryConfig(max_seeds=16, quotas={"base": 2, "miss_func": 4})
    assert _selected(config, {name: GROUPS[name] for name in ("b1", "b2", "b3", "f2")}) == ["b3", "b1", "f2"]


def test_total_m_keeps_the_highest_phi():
    config = BoundaryConfig(max_seeds=2, quotas={"base": 4, "miss_func": 4})
    assert _selected(config, {"b1": MEAN_25, "b2": MEAN_75, "b3": MEAN_50, "f1": MEAN_50}) == ["b3", "f1"]


@pytest.mark.parametrize(("quotas", "total"), [({}, 16), ({"base": 0}, 16), ({"base": 4}, 0)])
def test_no_quota_no_seed(quotas, total):
    assert _selected(BoundaryConfig(max_seeds=total, quotas=quotas), GROUPS) == []


def test_emission_carries_the_numbers_it_was_made_from():
    run = _run(BoundaryConfig(quotas={"base": 4}))
    (seed,) = run.select(run.observe(7, {"b1": MEAN_25, "b4": HARD}))
    assert (seed.step, seed.epoch, seed.task_id, seed.seed_id, seed.type) == (7, 1, "b1", "b1", "base")
    assert (seed.mean, seed.phi, seed.key) == (0.25, 0.75, "000007-b1")


@pytest.mark.parametrize("window", [0, 1, 3])
def test_exclusion_window_ends_after_exactly_its_steps(window):
    run = _run(BoundaryConfig(quotas={"base": 4}, exclusion_steps=window))
    emitted = [step for step in range(1, 9) if run.select(run.observe(step, {"b1": MEAN_50}))]
    assert emitted == list(range(1, 9, max(window, 1)))


def test_exclusion_goes_by_root_seed_and_only_one_of_a_line_per_step():
    config = BoundaryConfig(quotas={"base": 4}, exclusion_steps=2)
    run = Run([seed_task("a"), seed_task("b")], config, BufferConfig(injection_fraction=1.0))
    run.open_epoch()
    key = run.emit(1, "a")
    run.offer(variant_task("a~1", "a"), key)
    run.close_epoch()
    run.open_epoch()
    assert run.select(run.observe(2, {"a~1": MEAN_50})) == []
    both = run.select(run.observe(3, {"a": MEAN_25, "a~1": MEAN_50, "b": MEAN_25}))
    assert [(seed.task_id, seed.seed_id) for seed in both] == [("a~1", "a"), ("b", "b")]
    assert run.select(run.observe(4, {"a": MEAN_50})) == []
    assert [seed.task_id for seed in run.select(run.observe(5, {"a": MEAN_50}))] == ["a"]


def test_deciding_before_the_groups_are_applied_is_refused():
    run = _run(BoundaryConfig(quotas={"base": 4}))
    observed = [GroupObserved(1, 1, "b1", MEAN_50)]
    with pytest.raises(CurriculumError, match="fold the observations first"):
        select(run.state, observed, 1, 1)
    run.take(observed)
    with pytest.raises(CurriculumError, match="group of step 2"):
        select(run.state, observed, 2, 1)
    assert len(select(run.state, observed, 1, 1)) == 1


def test_random_seeds_come_from_all_zones_under_the_same_quotas():
    quotas = {"base": 2, "miss_func": 1, "long_context": 1}
    random, boundary = (
        BoundaryConfig(quotas=quotas, selection=selection) for selection in ("random", "boundary")
    )
    chosen = _selected(random, GROUPS)
    assert chosen == _selected(random, dict(reversed(GROUPS.items())))
    assert sorted(name[0] for name in chosen) == ["b", "b", "f", "l"]
    assert chosen != _selected(boundary, GROUPS)
    every = BoundaryConfig(quotas={kind.value: 9 for kind in TaskType}, selection="random")
    assert sorted(_selected(every, GROUPS)) == sorted(GROUPS)
    assert set(_selected(replace(every, selection="boundary"), GROUPS)) == set(GROUPS) - {"b4", "b5"}


def test_the_random_order_depends_on_run_seed_and_step():
    every = BoundaryConfig(quotas={kind.value: 9 for kind in TaskType}, selection="random", exclusion_steps=1)
    orders = set()
    for seed in (0, 1):
        run = _run(every)
        run.state = replace(run.state, seed=seed)
        for step in (1, 2):
            orders.add(tuple(task.task_id for task in run.select(run.observe(step, GROUPS))))
    assert len(orders) == 4
