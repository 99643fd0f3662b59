"""Stages that cannot be run are refused by key, value and fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rods.config import Config, ConfigError, from_mapping, validate
from rods.config.checks import Problem
from rods.config.rules import stages as rules
from rods.config.stages import StageConfig, planned_epochs, steps_vary, within

GOOD: dict[str, Any] = {
    "tasks": {"train_count": 48, "heldout_count": 48},
    "rollout": {"engine": "hf"},
    "boundary": {"quotas": {"base": 4}},
}


def staged(*stages: dict[str, Any], **training: Any) -> dict[str, Any]:
    return {**GOOD, "training": {**training, "stages": list(stages)}}


REFUSED: list[tuple[dict[str, Any], str]] = [
    (staged({"epochs": 1}), "training.stages = "),
    (staged({"name": "a"}, {"name": "a"}), "training.stages = "),
    (staged({"name": "a", "task_types": ["easy"]}), "training.stages[0].task_types = 'easy'"),
    (staged({"name": "a", "reward": "fun"}), "training.stages[0].reward = 'fun'"),
    (staged({"name": "a", "hints": "many"}), "training.stages[0].hints = 'many'"),
    (staged({"name": "a"}, {"name": "b", "epochs": 0}), "training.stages[1].epochs = 0"),
    (staged({"name": "a", "patience": -1}), "training.stages[0].patience = -1"),
    (staged({"name": "a", "target_steps": 0}), "training.stages[0].target_steps = 0"),
    (staged({"name": "a", "target_reward": 1.5}), "training.stages[0].target_reward = 1.5"),
    (staged({"name": "a", "target_reward": float("nan")}), "training.stages[0].target_reward = nan"),
    (staged({"name": "a", "reward": "format"}), "training.stages[0].reward = 'format'"),
    (
        staged({"name": "a"}, {"name": "b", "reward": "format", "synthesis": False}),
        "training.stages[1].reward = 'format'",
    ),
    (staged({"name": "a", "max_episode_tokens": 80}), "training.stages[0].max_episode_tokens = 80"),
    (staged({"name": "a", "max_episode_tokens": 1025}), "training.stages[0].max_episode_tokens = 1025"),
    (staged({"name": "a", "reward": "binary"}, credit="turn"), "training.stages[0].reward = 'binary'"),
]


@pytest.mark.parametrize(("data", "key"), REFUSED)
def test_a_stage_that_cannot_run_is_refused(data: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validate(from_mapping(data))
    (line,) = [line.strip() for line in str(refused.value).splitlines() if line.strip().startswith(key)][:1]
    assert "; " in line


@pytest.mark.parametrize(
    ("stage", "named"), [({"nom": "a"}, "nom"), ({"name": "a", "epochs": "many"}, "epochs")]
)
def test_an_unknown_key_or_wrong_type_in_a_stage_is_named(stage: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        from_mapping(staged(stage))


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_every_rule_about_stages_refuses_something(rule: Callable[[Config], Iterator[Problem]]) -> None:
    longer = {**GOOD, "rollout": {"engine": "hf", "max_episode_tokens": 1025}}
    assert any(list(rule(from_mapping(data))) for data, _ in [*REFUSED, (longer, "")])


def test_the_format_reward_may_reach_two() -> None:
    stage = {"name": "a", "reward": "format", "synthesis": False, "target_reward": 1.9}
    validate(from_mapping(staged(stage, {"name": "b"})))


def test_what_a_stage_leaves_open_is_as_in_the_run() -> None:
    config = from_mapping({**GOOD, "reward": {"name": "binary"}, "simulation": {"hints": "envtuning"}})
    assert within(config, StageConfig("a")) == config


def test_a_stage_changes_what_it_names_only() -> None:
    config = from_mapping(GOOD)
    stage = StageConfig("a", reward="binary", hints="envtuning", synthesis=False, max_episode_tokens=500)
    changed = within(config, stage)
    assert (changed.reward.name, changed.simulation.hints) == ("binary", "envtuning")
    assert (changed.synthesis.enabled, changed.rollout.max_episode_tokens) == (False, 500)
    assert (changed.training, changed.model, changed.buffer) == (config.training, config.model, config.buffer)


def test_stages_replace_the_runs_epochs() -> None:
    assert planned_epochs(from_mapping({"training": {"epochs": 4}})) == 4
    two = staged({"name": "a", "epochs": 1}, {"name": "b", "epochs": 2}, epochs=9)
    assert planned_epochs(from_mapping(two)) == 3


@pytest.mark.parametrize(
    ("data", "vary"),
    [
        ({"synthesis": {"enabled": False}}, False),
        ({"buffer": {"capacity": 0}}, False),
        ({}, True),
        ({"buffer": {"capacity": 0}, "training": {"trajectories": 800}}, True),
        ({"synthesis": {"enabled": False}, "training": {"stages": [{"name": "a"}]}}, True),
        ({"synthesis": {"enabled": False}, "buffer": {"sampling": "prioritised"}}, True),
    ],
)
def test_the_steps_of_a_run_are_known_where_nothing_changes_its_pool(
    data: dict[str, Any], vary: bool
) -> None:
    assert steps_vary(from_mapping(data)) is vary
