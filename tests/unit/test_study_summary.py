"""A run's summary: written and read back, refused when it is something else; and what makes two runs the same run."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from study_examples import summary

from benchmarks.study import arms, plan
from benchmarks.study import summary as summaries
from benchmarks.study.summary import Overlap, SummaryError
from rods.config import Config, ConfigError


def test_a_summary_is_read_as_it_was_written(tmp_path: Path) -> None:
    for made in (summary("rods", 1), summary("static", 0)):
        assert summaries.read(summaries.write(tmp_path, made)) == made
    assert [(each.arm, each.seed) for each in summaries.read_all(tmp_path)] == [("rods", 1), ("static", 0)]
    assert summaries.of_seeds(summaries.read_all(tmp_path), [0]) == [summary("static", 0)]


def test_a_summary_is_small_and_has_a_line_for_every_field(tmp_path: Path) -> None:
    text = summaries.write(tmp_path, summary()).read_text()
    assert len(text.splitlines()) == len(json.loads(text)) + 2
    assert len(text) < 4000


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: "[]",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"seed": 0', '"seed": "0"'),
        lambda text: text.replace('"seed": 0', '"seed": 0, "more": 1'),
        lambda text: text.replace('"attempts": 1,\n', ""),
        lambda text: text.replace('"zero_variance": 0.4', '"zero_variance": NaN'),
        lambda text: text.replace('"arm": "static"', '"arm": "rods"'),
    ],
)
def test_a_file_that_is_no_summary_is_refused_by_its_name(tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    path = summaries.write(tmp_path, summary())
    path.write_text(damage(path.read_text()))
    with pytest.raises(SummaryError, match=r"seed_0\.json"):
        summaries.read_all(tmp_path)


MECHANISM = summary().mechanism


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"curve": []}, "two evaluations"),
        ({"curve": summary().curve[:1]}, "two evaluations"),
        ({"curve": summary().curve[::-1]}, "in order"),
        ({"sampled": [], "greedy": []}, "each held-out task"),
        ({"greedy": [1.0]}, "each held-out task"),
        ({"start_sampled": [1.0]}, "each held-out task"),
        ({"overlap": Overlap(1, [], [len(summary().sampled)])}, "tasks that are none"),
        ({"overlap": Overlap(1, [-1], [])}, "tasks that are none"),
        ({"mechanism": msgspec.structs.replace(MECHANISM, zones={})}, "every zone"),
        ({"mechanism": msgspec.structs.replace(MECHANISM, pool=[])}, "no pool"),
        ({"mechanism": msgspec.structs.replace(MECHANISM, trained=[])}, "nothing that was trained on"),
        (
            {"mechanism": msgspec.structs.replace(MECHANISM, funnel={"seeds emitted": 1})},
            "stage of the funnel",
        ),
        ({"by_kind": {}}, "no scores by kind"),
    ],
)
def test_a_summary_that_lacks_what_the_page_is_made_of_is_refused(
    tmp_path: Path, changes: dict[str, Any], named: str
) -> None:
    summaries.write(tmp_path, summary(**changes))
    with pytest.raises(SummaryError, match=rf"seed_0\.json.*{named}"):
        summaries.read_all(tmp_path)


def test_a_summary_with_nan_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        summaries.write(tmp_path, summary(zero_variance=float("nan")))


def test_every_arm_composes_and_only_named_twins_have_equal_settings() -> None:
    found: dict[str, list[str]] = {}
    for arm in arms.ARMS:
        found.setdefault(plan.settings(plan.composed(arm)), []).append(arm.name)
    twins = [names for names in found.values() if len(names) > 1]
    assert twins == [[arm.same_as, arm.name] for arm in arms.ARMS if arm.same_as]
    assert len({arm.name for arm in arms.ARMS}) == len({arm.title for arm in arms.ARMS}) == len(arms.ARMS)


def test_all_arms_train_on_as_many_rollouts_from_one_policy_and_one_world() -> None:
    configs = [plan.composed(arm) for arm in arms.ARMS]
    assert {config.training.trajectories for config in configs} == {arms.TRAJECTORIES}
    assert {
        (config.training.group_size, config.training.threads, config.buffer.barrier) for config in configs
    } == {(8, 1, True)}
    first = configs[0]
    for config in configs:
        assert (config.model, config.tasks, config.rollout) == (first.model, first.tasks, first.rollout)


def test_settings_tell_what_is_trained_and_not_where_or_by_what_name() -> None:
    config = plan.composed(arms.get("rods"))
    elsewhere = replace(
        config,
        experiment="other",
        seed=7,
        tasks=replace(config.tasks, path="/elsewhere"),
        launch=replace(config.launch, runs_dir="elsewhere"),
    )
    assert plan.settings(elsewhere) == plan.settings(config)
    faster = replace(config, training=replace(config.training, learning_rate=1e-3))
    assert plan.settings(faster) != plan.settings(config)


def test_a_new_setting_that_is_off_leaves_all_runs_what_they_were() -> None:
    assert plan.settings(Config()) == hashlib.sha256(b"{}").hexdigest()


def test_arms_are_found_by_name_and_twins_are_not_run() -> None:
    assert [arm.name for arm in arms.chosen(["rods", "static"])] == ["rods", "static"]
    assert all(not arm.same_as for arm in arms.chosen(()))
    assert [arm.name for arm in arms.chosen(["rods-static_pool", "static", "rods", "rods"])] == [
        "static",
        "rods",
    ]
    with pytest.raises(arms.UnknownArmError, match="expected one of static"):
        arms.chosen(["dynamic"])


def test_an_arm_with_a_setting_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError):
        plan.composed(arms.Arm("x", "x", ("+experiment=rods_tiny", "training.no_such_thing=1")))
