"""The numbers of the study: known answers, and intervals that behave as intervals must."""

from __future__ import annotations

import numpy as np
import pytest
from study_examples import TASKS, point, summary

from benchmarks.study import compare
from benchmarks.study.summary import Overlap


def test_final_scores_are_paired_by_seed_and_task() -> None:
    ours = {seed: summary("rods", seed, gain=0.4) for seed in (0, 1, 2, 3)}
    theirs = {seed: summary("static", seed, gain=0.2) for seed in (1, 2, 3, 4)}
    found = compare.final(ours, theirs, "sampled")
    assert found is not None
    assert found.seeds == 3
    assert found.mean == pytest.approx(0.1)  # half of the tasks differ by 0.2
    assert found.interval is not None
    assert 0 < found.interval.low < 0.1 < found.interval.high < 0.2
    assert found.clear
    two = compare.final({seed: ours[seed] for seed in (1, 2)}, theirs, "sampled")
    assert two is not None
    assert (two.interval, two.seeds, two.clear) == (found.interval, 2, False)


def test_tasks_that_are_left_out_count_for_nothing() -> None:
    ours, theirs = {0: summary("rods", gain=0.4)}, {0: summary(gain=0.2)}
    only_changed = compare.final(ours, theirs, "sampled", range(TASKS // 2))
    assert only_changed is not None
    assert only_changed.mean == pytest.approx(0.2)


def test_accuracy_counts_whole_tasks() -> None:
    assert compare.scores(summary(gain=0.9), "sampled_accuracy").mean() == 0.5
    assert compare.scores(summary(gain=1.0), "sampled_accuracy").mean() == 1.0
    assert compare.scores(summary(gain=1.0), "greedy_accuracy").mean() == 0.5


def test_without_a_common_seed_there_is_no_difference() -> None:
    assert compare.final({0: summary("rods")}, {1: summary(seed=1)}, "greedy") is None
    assert compare.paired({0: 1.0}, {1: 1.0}) is None


def test_the_crossed_interval_is_wider_than_that_of_seeds_or_tasks_alone() -> None:
    rng = np.random.default_rng(1)
    seeds, tasks = rng.normal(0, 0.1, (5, 1)), rng.normal(0, 0.5, (1, 40))

    def width(differences: np.ndarray) -> float:
        found = compare.crossed(differences).interval
        assert found is not None
        return found.high - found.low

    both = width(seeds + tasks)
    assert both > width(seeds + np.zeros((1, 40)))
    assert both > width(np.zeros((5, 1)) + tasks)
    assert width(np.full((5, 40), 0.3)) == pytest.approx(0)


def test_the_crossed_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(30):
        drawn = rng.normal(0, 0.1, (8, 1)) + rng.normal(0, 0.5, (1, 60)) + rng.normal(0, 0.5, (8, 60))
        found = compare.crossed(drawn).interval
        assert found is not None
        covered += found.low <= 0 <= found.high
    assert covered >= 25


def test_few_seeds_are_clear_only_where_students_interval_is_too() -> None:
    apart = [0.001, 0.004, 0.005, 0.006, 0.039]  # the bootstrap leaves 0 out, t = 1.6
    found = compare.over_seeds(apart)
    assert found is not None
    assert found.interval is not None
    assert found.interval.low > 0
    assert not found.clear
    assert not compare.crossed(np.array(apart)[:, None] + np.zeros((1, 40))).clear
    tasks = np.tile(np.array([0.5, -0.4] * 20), (5, 1))  # no spread over seeds, much over tasks
    assert not compare.crossed(tasks).clear
    together = compare.over_seeds([0.010, 0.011, 0.012, 0.013, 0.014])
    assert together is not None
    assert together.clear


def test_a_rise_is_the_last_evaluation_less_the_first() -> None:
    runs = [summary(seed=seed, gain=0.4) for seed in (0, 1, 2)]
    found = compare.risen(runs, "sampled")
    assert (found.mean, found.seeds) == (pytest.approx(0.2), 3)
    assert compare.risen(runs, "greedy", range(TASKS // 2)).mean == pytest.approx(0.2)
    whole = [summary(seed=seed, gain=1.0) for seed in (0, 1)]
    assert compare.risen(whole, "sampled_accuracy").mean == pytest.approx(0.5)


def test_one_number_a_run_has_an_interval_over_seeds() -> None:
    found = compare.paired({0: 3.0, 1: 4.0, 2: 5.0}, {0: 1.0, 1: 1.0, 2: 1.0})
    assert found is not None
    assert (found.mean, found.seeds) == (3.0, 3)
    assert found.interval is not None
    assert 2.0 <= found.interval.low < 3.0 < found.interval.high <= 4.0
    for few in ([0.5], [0.4, 0.6]):
        unclear = compare.over_seeds(few)
        assert unclear is not None
        assert (unclear.mean, unclear.interval, unclear.clear) == (0.5, None, False)


def test_the_area_is_the_mean_height_whatever_the_spacing() -> None:
    assert compare.area(summary(gain=0.2), "sampled") == pytest.approx(0.5)
    uneven = summary(curve=[point(0, 0.0, 0.0), point(100, 1.0, 0.0), point(400, 1.0, 0.0)])
    assert compare.area(uneven, "sampled") == pytest.approx((50 + 300) / 400)


def test_a_goal_is_reached_between_two_evaluations_or_never() -> None:
    run = summary(gain=0.2)
    assert compare.reached(run, "sampled", 0.4) == 0.0
    assert compare.reached(run, "sampled", 0.45) == pytest.approx(48)
    assert compare.reached(run, "sampled", 0.6) == pytest.approx(192)
    assert compare.reached(run, "sampled", 0.61) is None
    falling = summary(curve=[point(0, 0.2, 0), point(96, 0.8, 0), point(192, 0.1, 0)])
    assert compare.reached(falling, "sampled", 0.5) == pytest.approx(48)


def test_the_best_point_is_that_of_the_mean_curve() -> None:
    first = summary(curve=[point(0, 0.0, 0), point(96, 0.9, 0), point(192, 0.1, 0)])
    second = summary(seed=1, curve=[point(0, 0.0, 0), point(96, 0.1, 0), point(192, 0.7, 0)])
    assert compare.best({0: first, 1: second}, "sampled") == pytest.approx(0.5)


def test_equal_compute_ends_where_the_cheapest_run_does() -> None:
    dear = summary("rods", curve=[point(0, 0.4, 0.5, 0.0), point(192, 0.8, 0.9, 400.0)])
    spent = compare.budget([dear, summary()])
    assert spent == 192
    assert compare.at(dear, "cpu_seconds", "sampled", [spent])[0] == pytest.approx(0.4 + 0.4 * 192 / 400)
    with pytest.raises(compare.ComparisonError):
        compare.budget([])


def test_a_task_that_any_run_repeats_leaves_all_scores() -> None:
    runs = [
        summary(overlap=Overlap(3, [1], [1, 4])),
        summary(seed=1),
        summary("rods", overlap=Overlap(1, [], [0])),
    ]
    assert compare.repeated(runs) == [0, 1, 4]


def test_the_mean_curve_is_read_at_the_first_runs_evaluations() -> None:
    other = summary(seed=1, curve=[point(0, 0.4, 0.5), point(192, 0.8, 0.9)])
    found = compare.mean_curve([summary(gain=0.2), other], "sampled")
    assert [x for x, _, _ in found] == [0, 96, 192]
    assert [mean for _, mean, _ in found] == pytest.approx([0.4, 0.55, 0.7])
    assert found[0][2] == pytest.approx(0, abs=1e-9)
    assert compare.mean_curve([other], "sampled")[0][2] is None


def test_the_dearer_of_two_runs_is_read_where_the_cheaper_one_ended() -> None:
    dear = summary("rods", 1, curve=[point(0, 0.4, 0.5), point(192, 0.8, 0.9, cpu=400.0)])
    found = compare.equally_spent({1: dear, 2: dear}, {1: summary(seed=1)}, "sampled")
    assert found is not None
    assert (found.seeds, found.mean) == (1, pytest.approx(0.4 + 0.4 * 192 / 400 - 0.6))
    other = compare.equally_spent({1: summary(seed=1)}, {1: dear}, "sampled")
    assert other is not None
    assert other.mean == pytest.approx(-found.mean)
    assert compare.equally_spent({1: dear}, {2: dear}, "sampled") is None
