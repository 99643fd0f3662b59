"""Every experiment can be planned, and each holds what its name says."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from analysis import paper
from launchers import plan
from launchers.identity import differences
from rods.config import Config
from rods.config.compose import FOLDER, compose
from rods.config.stages import within

EXPERIMENTS = sorted(path.stem for path in (FOLDER / "experiment").glob("*.yaml"))
MODELS = ("qwen4b", "qwen25_7b", "llama31_8b")


@cache
def experiment(name: str, *overrides: str) -> Config:
    """What `launch.py +experiment=NAME` has."""
    return compose([f"+experiment={name}", *overrides])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_has_a_plan(name: str) -> None:
    given = ["evaluation.policy=shipped/tiny"] if name == "evaluate_only" else []
    assert name in plan.render(plan.build(experiment(name, "launch.mode=plan", *given)))


def test_every_row_of_the_papers_tables_has_its_experiment_and_its_ablation() -> None:
    ablations = {path.stem for path in (FOLDER / "ablation").glob("*.yaml")}
    for row in paper.load().rows:
        assert row.experiment in {*EXPERIMENTS, ""}, row.system
        assert row.ablation in {*ablations, ""}, row.system


@pytest.mark.parametrize("model", MODELS)
def test_the_systems_of_a_model_differ_in_the_method_alone(model: str) -> None:
    rods = experiment(f"rods_{model}")
    for system, keys in (
        ("static", {"synthesis"}),
        ("envtuning", {"synthesis", "training"}),
        ("rods_envtuning", {"training"}),
    ):
        other = experiment(f"{system}_{model}")
        changed = {key for key in other.to_dict() if other.to_dict()[key] != rods.to_dict()[key]}
        assert changed == keys | {"experiment"}, system


@pytest.mark.parametrize("model", MODELS)
def test_models_differ_in_the_model_and_its_own_tool_calls_alone(model: str) -> None:
    first, other = experiment("rods_qwen4b").to_dict(), experiment(f"rods_{model}").to_dict()
    other["simulation"]["protocol"] = first["simulation"]["protocol"]
    assert {key for key in other if other[key] != first[key]} <= {"experiment", "model"}
    assert model == "qwen4b" or other["model"] != first["model"]


@pytest.mark.parametrize("name", ["static_qwen4b", "envtuning_qwen4b", "static_tiny", "envtuning_tiny"])
def test_a_static_system_never_synthesises(name: str) -> None:
    config = experiment(name)
    assert not config.synthesis.enabled
    assert not any(within(config, stage).synthesis.enabled for stage in config.training.stages)


@pytest.mark.parametrize("name", ["rods_envtuning_qwen4b", "rods_envtuning_tiny"])
def test_rods_after_envtuning_expands_when_the_hints_are_off(name: str) -> None:
    stages = [within(experiment(name), stage) for stage in experiment(name).training.stages]
    assert [stage.simulation.hints for stage in stages] == ["none", "envtuning", "envtuning", "none"]
    assert [stage.synthesis.enabled for stage in stages] == [False, False, False, True]


@pytest.mark.parametrize("name", ["rods_plus_qwen4b", "rods_plus_tiny"])
def test_rods_plus_has_all_extensions_on(name: str) -> None:
    config = experiment(name)
    assert (config.boundary.selection, config.buffer.injection) == ("posterior", "stream")
    assert config.boundary.depth_shift == "adaptive"
    assert config.buffer.review_epochs > 0
    assert config.training.credit == "turn"
    assert config.synthesis.enabled


def test_the_baselines_have_their_one_switch() -> None:
    for size in ("qwen4b", "tiny"):
        static = experiment(f"static_{size}")
        prioritised = experiment(f"prioritised_{size}")
        assert prioritised.buffer.sampling == "prioritised"
        assert len(differences(static, prioritised)) == 2
        filtered = experiment(f"zero_variance_{size}")
        assert filtered.training.skip_zero_variance
        assert filtered.training.max_resamples == filtered.training.tasks_per_step
        assert len(differences(static, filtered)) == 3
        assert experiment(f"ppo_{size}").training.algorithm == "ppo"
        uniform = experiment(f"uniform_{size}")
        assert (uniform.boundary.selection, uniform.buffer.retire) == ("uniform", False)
        assert len(differences(experiment(f"rods_{size}"), uniform)) == 3


def test_the_other_synthesiser_is_the_other_synthesiser() -> None:
    found = differences(experiment("rods_qwen4b"), experiment("rods_qwen4b_glm45air"))
    assert len(found) == 2
    assert experiment("rods_qwen4b_glm45air").synthesis.model == "zai-org/GLM-4.5-Air"


def test_the_offline_data_set_has_the_seeds_held_out_tasks() -> None:
    config = experiment("offline17k_qwen4b")
    assert (config.tasks.source, config.tasks.heldout_count) == ("file", 400)
    assert Path(config.tasks.path).name == "offline17k"
    assert not config.synthesis.enabled


@pytest.mark.parametrize("capacity", [0, 50, 100, 200, 400])
def test_the_papers_capacities_can_run(capacity: int) -> None:
    assert experiment("rods_qwen4b", f"buffer.capacity={capacity}").buffer.capacity == capacity
