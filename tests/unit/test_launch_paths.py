"""A run's paths are absolute from its launch on; names of models and absolute paths stay as they were typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from sweep_examples import CONF, points

import launch
from launchers import paths
from launchers.identity import config_hash
from launchers.plan import Plan
from launchers.sweep import Point
from rods.config import Config, EvaluationConfig, ModelConfig, SimulationConfig, TasksConfig
from rods.model_path import anchored
from rods.roles import launching


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a model and with tasks."""
    for name in ("model", "org/model"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.json").write_text("{}")
    (tmp_path / "tasks.jsonl").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_is_a_path_here_becomes_absolute(here: Path) -> None:
    found = paths.absolute(
        Config(
            model=ModelConfig(path="model"),
            tasks=TasksConfig(source="file", path="tasks.jsonl"),
            simulation=SimulationConfig(cassettes="made/later"),
            evaluation=EvaluationConfig(policy="org/model"),
        )
    )
    assert found.model.path == str(here / "model")
    assert found.tasks.path == str(here / "tasks.jsonl")
    assert found.simulation.cassettes == str(here / "made/later")
    assert found.evaluation.policy == str(here / "org/model")


@pytest.mark.parametrize("name", ["shipped/tiny", "Qwen/Qwen3-4B", "gpt2", "/data//models/4b/", ""])
def test_names_and_absolute_paths_stay(here: Path, name: str) -> None:
    (here / "shipped" / "tiny").mkdir(parents=True)
    assert anchored(name) == name


def test_what_can_only_be_a_path_becomes_absolute_though_it_is_not_here(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/her")
    assert anchored("./elsewhere") == str(here / "elsewhere")
    assert anchored("~/models/4b") == "/home/her/models/4b"
    assert anchored("~nobody.of.this.name/4b") == str(here / "~nobody.of.this.name/4b")
    assert paths.absolute(Config(tasks=TasksConfig(path="~nobody.of.this.name/t"))).tasks.path == str(
        here / "~nobody.of.this.name/t"
    )


def test_a_run_without_relative_paths_keeps_its_identity(here: Path) -> None:
    config = Config(tasks=TasksConfig(source="file", path="/data/tasks/"), model=ModelConfig(path="org/name"))
    assert config_hash(paths.absolute(config)) == config_hash(config)


def test_a_launch_keeps_absolute_paths(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Config] = []

    def started(config: Config, plan: Plan, overrides: list[str]) -> int:
        kept.append(config)
        assert plan.config_hash == config_hash(config)
        return 0

    monkeypatch.setattr(launching, "launch", started)
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        composed = compose("config", ["+experiment=rods_tiny", "model.path=model"], return_hydra_config=True)
        asked = composed.hydra
        del composed.hydra
        assert launch.launch_one(composed, asked) == 0
    assert kept[0].model.path == str(here / "model")


def test_the_runs_of_a_sweep_keep_absolute_paths(here: Path) -> None:
    made = points("+experiment=rods_tiny", "model.path=model,shipped/tiny")
    found = [point.config.model.path for point in made if isinstance(point, Point)]
    assert found == [str(here / "model"), "shipped/tiny"]
    assert all(
        point.plan.config_hash == config_hash(point.config) for point in made if isinstance(point, Point)
    )
