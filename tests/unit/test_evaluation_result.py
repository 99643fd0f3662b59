"""Scores and their comparison; suites, splits and the settings of an evaluation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rods.config import Config, ConfigError, RewardConfig, SimulationConfig, TasksConfig
from rods.evaluation import result, suites
from rods.evaluation.result import ResultError
from rods.evaluation.settings import content, settings
from rods.evaluation.statistics import wilson
from rods.evaluation.suites import SuiteError
from rods.tasks import load
from rods.tasks.model import TaskType

BFCL, SCRIPTED = suites.get("bfcl_v3"), suites.get("scripted")


def scored(passed: dict[str, bool], **facts: Any) -> dict[str, Any]:
    """A result in which these tasks passed or not; types take turns."""
    kinds = ("base", "miss_func")
    trajectories = [
        {
            "task_id": name,
            "type": kinds[place % 2],
            "passed": won,
            "progress": float(won),
            "finish": "finished",
        }
        for place, (name, won) in enumerate(passed.items())
    ]
    return result.assemble(trajectories, {"suite": "s", "split": "heldout", "fingerprint": "f", **facts})


def test_a_score_has_its_interval_in_all_and_by_type() -> None:
    found = scored({"a": True, "b": False, "c": True, "d": True})
    assert found["overall"]["accuracy"] == 0.75
    assert found["overall"]["interval"] == {"low": wilson(3, 4).low, "high": wilson(3, 4).high}
    assert {kind: score["passed"] for kind, score in found["by_type"].items()} == {"base": 2, "miss_func": 1}


def test_a_comparison_is_paired() -> None:
    ours = scored({"a": True, "b": True, "c": True, "d": False})
    theirs = scored({"a": True, "b": False, "c": False, "d": True})
    found = result.compare(ours, theirs)
    assert (found.count, found.difference, found.only_ours, found.only_theirs) == (4, 0.25, 2, 1)
    assert found.p_value == 1
    assert found.interval.low <= 0.25 <= found.interval.high
    assert result.compare(theirs, ours).difference == -0.25


@pytest.mark.parametrize("key", ["suite", "split", "fingerprint"])
def test_results_on_other_tasks_are_not_compared(key: str) -> None:
    with pytest.raises(ResultError, match=f"{key} = "):
        result.compare(scored({"a": True}), scored({"a": True}, **{key: "other"}))


def test_a_result_that_lacks_tasks_is_not_compared() -> None:
    with pytest.raises(ResultError, match="expected 2 tasks, found 1"):
        result.compare(scored({"a": True, "b": True}), scored({"a": True}))


def test_a_result_is_read_from_its_file_or_its_folder(tmp_path: Path) -> None:
    file = tmp_path / result.RESULT
    file.write_text(json.dumps(scored({"a": True})))
    assert result.read(file) == result.read(tmp_path) == scored({"a": True})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        '{"tasks": {}, "suite": "", "split": ""}',
        '{"tasks": {"a": {"type": "base", "passed": 1}}, "suite": "", "split": ""}',
    ],
)
def test_a_file_that_is_no_result_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / result.RESULT).write_text(text)
    with pytest.raises(ResultError, match=result.RESULT):
        result.read(tmp_path)
    with pytest.raises(ResultError, match="no such file"):
        result.read(tmp_path / "elsewhere.json")


def test_the_validation_tasks_are_trained_on_and_never_held_out() -> None:
    config = suites.under_rules(Config(), BFCL)
    tasks = load(config.tasks)
    validation = suites.tasks_of(config, "validation")
    assert {task.id for task in validation} <= {task.id for task in tasks.train}
    assert not {task.id for task in validation} & {task.id for task in tasks.heldout}
    assert validation == suites.tasks_of(config, "validation")
    stories = {kind: [t.id.rpartition("_")[2] for t in validation if t.type is kind] for kind in TaskType}
    assert {len(numbers) for numbers in stories.values()} == {25}
    assert len({tuple(numbers) for numbers in stories.values()}) == 1  # siblings stay together
    assert len(suites.tasks_of(config, "heldout")) == len(suites.tasks_of(config, "train")) == 400


def test_a_suite_or_split_that_is_not_there_is_named() -> None:
    with pytest.raises(SuiteError, match="bfcl_v9: expected one of bfcl_v3, scripted"):
        suites.get("bfcl_v9")
    config = suites.under_rules(Config(), SCRIPTED)
    with pytest.raises(SuiteError, match="heldout, validation, train"):
        suites.tasks_of(config, "test")
    empty = Config(tasks=TasksConfig(source="scripted", train_count=1, heldout_count=0))
    with pytest.raises(SuiteError, match="expected tasks"):
        suites.tasks_of(empty, "heldout")


def test_bfcl_is_scored_by_its_own_rules_whatever_the_run_trained_with() -> None:
    run = Config(
        simulation=SimulationConfig(hints="envtuning", protocol="envtuning"),
        reward=RewardConfig(name="format"),
        tasks=TasksConfig(source="bfcl", train_count=8, heldout_count=8),
    )
    config = settings(run, "", BFCL, [])
    simulation = config.simulation
    assert (simulation.step_limit, simulation.at_limit, simulation.types) == (20, "force_quit", "official")
    assert (simulation.hints, simulation.protocol) == ("none", "envtuning")
    assert (config.reward.name, config.reward.empty_turn) == ("binary", "official")
    assert (config.rollout.temperature, config.tasks.heldout_count) == (0.0, None)


def test_sampling_may_be_changed_and_the_rules_may_not() -> None:
    config = settings(None, "shipped/tiny", SCRIPTED, ["rollout.temperature=1.0", "tasks.heldout_count=6"])
    assert (config.rollout.temperature, config.tasks.heldout_count) == (1.0, 6)
    for override in ("simulation.step_limit=50", "reward.name=progress", "rollout.temperature"):
        with pytest.raises(ConfigError, match=override):
            settings(None, "shipped/tiny", BFCL, [override])
    with pytest.raises(ConfigError, match="temperatur"):
        settings(None, "shipped/tiny", BFCL, ["rollout.temperatur=1"])
    with pytest.raises(ConfigError, match=r"rollout\.temperature"):
        settings(None, "shipped/tiny", BFCL, ["rollout.temperature=-1"])


def test_a_model_by_itself_gets_room_for_its_tools() -> None:
    config = settings(None, "Qwen/some-model", BFCL, [])
    assert config.model.path == "Qwen/some-model"
    assert config.model.tools_in_prompt
    assert (config.model.max_length, config.rollout.max_message_tokens) == (32768, 4096)
    assert config.rollout.temperature == 0


def test_what_a_score_depends_on_leaves_out_where_it_ran() -> None:
    first = settings(None, "shipped/tiny", SCRIPTED, [])
    assert content(first) == content(settings(None, "shipped/tiny", SCRIPTED, ["rollout.engine=hf"]))
    assert content(first) != content(settings(None, "shipped/tiny", SCRIPTED, ["rollout.top_p=0.5"]))
