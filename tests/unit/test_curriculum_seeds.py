"""Which tasks become seeds, beside the paper's way: by a posterior, uniformly, and from beside a dry boundary zone."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rods.config import BoundaryConfig
from rods.curriculum.errors import ImpossibleEventError
from rods.curriculum.events import RunStarted, SeedEmitted, seed_key
from rods.curriculum.state import CurriculumState, fold
from rods.curriculum.strategy import depth
from rods.curriculum.strategy.selection import expected_phi, posterior
from rods.curriculum.zones import phi
from rods.tasks.model import TaskType
from tests.unit.curriculum_examples import QUOTAS, Run, seed_task

UNIT = st.floats(0, 1)


# --- selection by a posterior


def test_one_group_counts_as_so_many_trials_on_a_uniform_prior():
    assert posterior([0.25], BoundaryConfig(posterior_rollouts=8)) == (3.0, 7.0)


def test_earlier_groups_are_forgotten_by_a_factor_each():
    config = BoundaryConfig(posterior_rollouts=10, posterior_forgetting=0.5)
    assert posterior([1.0, 0.0], config) == pytest.approx((1 + 5, 1 + 10))


@given(st.lists(UNIT, max_size=6), UNIT)
def test_a_posterior_of_more_groups_is_no_wider_and_follows_the_latest(earlier, latest):
    config = BoundaryConfig(posterior_rollouts=16, posterior_forgetting=0.7)
    a, b = posterior([*earlier, latest], config)
    assert a + b >= 2 + 16 - 1e-9
    higher = posterior([*earlier, min(1.0, latest + 0.1)], config)
    assert higher[0] / sum(higher) >= a / (a + b) - 1e-9


def test_the_expected_phi_is_that_of_the_beta_distribution():
    # Beta(2, 2): E[p] = 1/2, Var = 1/20, so 4(E[p] − E[p²]) = 4(1/2 − 3/10).
    assert expected_phi(2, 2) == pytest.approx(0.8)
    assert expected_phi(1e6, 1e6) == pytest.approx(1, abs=1e-5)


def posterior_run(**changes):
    config = BoundaryConfig(selection="posterior", quotas=dict(QUOTAS), exclusion_steps=1, **changes)
    run = Run([seed_task(name) for name in "ab"], config)
    run.open_epoch()
    return run


def test_a_lucky_group_of_a_mastered_task_does_not_make_it_a_boundary_task():
    run = posterior_run(posterior_rollouts=4)
    for step in range(1, 6):
        run.observe(step, {"a": (1.0, 1.0)})
    assert run.select(run.observe(6, {"a": (1.0, 0.5), "b": (1.0, 0.5)})) != []
    assert [seed.task_id for seed in run.events if seed.name == "seed_emitted"] == ["b"]


def test_the_better_known_of_two_equal_tasks_ranks_higher():
    run = posterior_run()
    run.observe(1, {"b": (1.0, 0.0)})
    seeds = run.select(run.observe(2, {"a": (1.0, 0.0), "b": (1.0, 0.0)}))
    assert [seed.task_id for seed in seeds] == ["b", "a"]


def test_what_is_emitted_still_says_the_latest_mean():
    run = posterior_run(alpha_low=0.1)
    run.observe(1, {"a": (1.0, 0.0)})
    (seed,) = run.select(run.observe(2, {"a": (0.5, 0.0)}))
    assert (seed.mean, seed.phi) == (0.25, phi(0.25))


# --- uniform fresh synthesis


def uniform_run(names, seed=0, **changes):
    config = BoundaryConfig(selection="uniform", quotas={"base": 2}, exclusion_steps=1, **changes)
    run = Run([seed_task(name) for name in names], config)
    run.take([RunStarted(0, 0, "tasks", seed)])
    run.open_epoch()
    return run


def emitted(seeds):
    return [seed.task_id for seed in seeds]


def test_any_task_of_the_pool_that_was_visited_becomes_a_seed_whatever_it_earns():
    run = uniform_run("abcde")
    run.observe(1, {"a": (0.0, 0.0), "b": (1.0, 1.0), "c": (1.0, 0.0), "d": (0.0, 0.0)})
    found = set()
    for step in range(2, 40):
        found |= set(emitted(run.select(run.observe(step, {"a": (0.0, 0.0)}))))
    assert found == set("abcd"), "e was never visited"


def test_what_is_drawn_depends_on_run_seed_and_step_and_not_on_rewards():
    def draws(seed, reward):
        run = uniform_run("abcdefgh", seed)
        return [emitted(run.select(run.observe(step, dict.fromkeys("abcdefgh", reward)))) for step in (1, 2)]

    assert draws(0, (0.0, 0.0)) == draws(0, (1.0, 0.5))
    assert len({str(draw) for seed in (0, 1) for draw in draws(seed, (0.0, 0.0))}) == 4


def test_each_task_is_drawn_about_equally_often():
    run = uniform_run("abcdefgh")
    run.observe(1, dict.fromkeys("abcdefgh", (0.0, 0.0)))
    drawn = Counter(
        name for step in range(2, 402) for name in emitted(run.select(run.observe(step, {"a": (1.0, 1.0)})))
    )
    # 800 draws of 8 tasks: 100 each, standard deviation 8.7.
    assert sum(drawn.values()) == 800
    assert min(drawn.values()) > 65
    assert max(drawn.values()) < 135


def test_a_seed_of_an_earlier_step_is_only_in_order_where_seeds_are_drawn_from_the_pool():
    for selection in ("uniform", "boundary", "random", "posterior"):
        run = Run(
            [seed_task(name) for name in "ab"], BoundaryConfig(selection=selection, quotas=dict(QUOTAS))
        )
        run.open_epoch()
        run.observe(1, {"a": (1.0, 0.0)})
        late = SeedEmitted(2, 1, "a", "a", TaskType.BASE, 0.5, 1.0, seed_key(2, "a"), 0)
        if selection == "uniform":
            assert fold(run.state, [late]).requests[late.key].task_id == "a"
        else:
            with pytest.raises(ImpossibleEventError, match="a group of this step, found its latest at 1"):
                fold(run.state, [late])


# --- deeper and shallower variants where the boundary zone is dry

ZONES = {"h": (0.0, 0.0), "g": (0.25, 0.0), "b": (1.0, 0.0), "m": (1.0, 1.0), "n": (1.0, 0.75)}


def shifted(names, depth_shift="adaptive", **changes):
    """The seeds of one step in which tasks of these zones (their first letter) are observed."""
    config = BoundaryConfig(depth_shift=depth_shift, quotas=dict(QUOTAS), max_seeds=16, **changes)
    run = Run([seed_task(name) for name in names], config)
    run.open_epoch()
    seeds = run.select(run.observe(1, {name: ZONES[name[0]] for name in names}))
    assert CurriculumState.from_json(run.state.to_json()) == run.state
    return {seed.task_id: seed.depth_shift for seed in seeds}


def test_a_zone_that_runs_dry_is_filled_up_with_deeper_variants_of_mastered_tasks():
    assert shifted(["b1", "m1", "n1", "m2", "h1"]) == {"b1": 0, "n1": 1, "m1": 1, "m2": 1}


def test_and_with_shallower_variants_of_hard_ones_where_there_are_more_of_those():
    assert shifted(["b1", "h1", "g1", "h2", "m1"]) == {"b1": 0, "g1": -1, "h1": -1, "h2": -1}


def test_seeds_from_beside_the_zone_come_last_and_nearest_first():
    # b is at the boundary's far end: its φ is below that of g, which is just too hard.
    ZONES_FAR = {"b1": (1.0, 0.7), "g1": (0.19, 0.19), "h1": (0.0, 0.0), "h2": (0.1, 0.1), "h3": (0.0, 0.0)}
    config = BoundaryConfig(depth_shift="adaptive", quotas={"base": 3}, max_seeds=3)
    run = Run([seed_task(name) for name in ZONES_FAR], config)
    run.open_epoch()
    assert emitted(run.select(run.observe(1, ZONES_FAR))) == ["b1", "g1", "h2"]


@pytest.mark.parametrize(
    ("names", "changes"),
    [
        (["b1", "m1", "m2"], {}),  # a third is enough
        (["b1", "b2", "h1", "h2"], {}),
        (["h1", "m1"], {}),  # neither holds more
        (["b1", "m1", "m2", "m3", "m4"], {"depth_shift": "none"}),
        (["b1", "m1", "m2", "m3", "m4"], {"dry_below": 0.2}),  # its share is not below
    ],
)
def test_else_seeds_come_from_the_boundary_as_they_are(names, changes):
    assert shifted(names, **changes) == {name: 0 for name in names if name.startswith("b")}


def test_tasks_never_observed_and_retired_ones_do_not_count():
    config = BoundaryConfig(depth_shift="adaptive", quotas=dict(QUOTAS))
    run = Run([seed_task(name) for name in ("b1", "m1", "u1", "u2", "u3", "u4")], config)
    run.open_epoch()
    assert depth.shift(run.state) == 0
    run.observe(1, {"b1": (1.0, 0.0), "m1": (1.0, 1.0)})
    assert depth.shift(run.state) == 0
    run.observe(2, {"u1": (1.0, 1.0), "u2": (1.0, 1.0)})
    assert depth.shift(run.state) == 1


def test_quotas_exclusion_and_one_per_root_hold_for_them_too():
    config = BoundaryConfig(depth_shift="adaptive", quotas={"base": 2}, exclusion_steps=5)
    run = Run([seed_task(name) for name in ("m1", "m2", "m3")], config)
    run.open_epoch()
    rewards = dict.fromkeys(("m1", "m2", "m3"), (1.0, 1.0))
    assert emitted(run.select(run.observe(1, rewards))) == ["m1", "m2"]
    assert emitted(run.select(run.observe(2, rewards))) == ["m3"]
    assert emitted(run.select(run.observe(3, rewards))) == []


def test_what_a_posterior_still_holds_at_the_boundary_is_no_seed_twice():
    config = BoundaryConfig(selection="posterior", depth_shift="adaptive", quotas=dict(QUOTAS))
    run = Run([seed_task(name) for name in ("m1", "m2", "m3", "m4")], config)
    run.open_epoch()
    run.observe(1, dict.fromkeys(("m1", "m2"), (0.0, 0.0)))
    seeds = run.select(run.observe(2, dict.fromkeys(("m1", "m2", "m3", "m4"), (1.0, 1.0))))
    assert {seed.task_id: seed.depth_shift for seed in seeds} == {"m1": 0, "m2": 0, "m3": 1, "m4": 1}


@pytest.mark.parametrize(
    ("setting", "shift", "in_order"),
    [("none", 0, True), ("none", 1, False), ("adaptive", -1, True), ("adaptive", 2, False)],
)
def test_a_journal_with_a_shift_that_the_setting_does_not_know_is_refused(setting, shift, in_order):
    run = Run([seed_task("a")], BoundaryConfig(depth_shift=setting, quotas=dict(QUOTAS)))
    run.open_epoch()
    run.observe(1, {"a": (1.0, 0.0)})
    event = SeedEmitted(1, 1, "a", "a", TaskType.BASE, 0.5, 1.0, seed_key(1, "a"), shift)
    if in_order:
        assert fold(run.state, [event]).requests[event.key].depth_shift == shift
    else:
        with pytest.raises(ImpossibleEventError, match="a depth shift of"):
            fold(run.state, [event])
