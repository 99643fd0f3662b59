"""Every experiment composes and passes the rules; what Hydra composes is what the schema knows."""

from __future__ import annotations

from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig

from launchers.identity import differences
from rods.config import Config, ConfigError, from_mapping, validate
from rods.config.compose import compose as compose_apart
from rods.config.stages import planned_epochs, within

CONF = Path(__file__).parents[2] / "conf"
DELTAS = ("experiment", "ablation")  # added with +, so that they are absent from the primary defaults
PARTS = ("stages",)  # groups that give one key of a section
EXPERIMENTS, ABLATIONS = (sorted(path.stem for path in (CONF / name).glob("*.yaml")) for name in DELTAS)
ASKED = {"evaluate_only": ("evaluation.policy=shipped/tiny",)}  # what an experiment leaves to its user
GROUPS = sorted(
    (group.name, choice.stem)
    for group in CONF.iterdir()
    if group.is_dir() and group.name not in DELTAS
    for choice in group.glob("*.yaml")
)


def composed(*overrides: str) -> DictConfig:
    """What Hydra makes of some overrides."""
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        return compose(config_name="config", overrides=list(overrides))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_composes_and_can_run(name: str) -> None:
    config = from_mapping(composed(f"+experiment={name}", *ASKED.get(name, ())))
    validate(config)
    assert config.experiment == name


@pytest.mark.parametrize("experiment", ["rods_tiny", "rods_qwen4b"])
@pytest.mark.parametrize("name", ABLATIONS)
def test_an_ablation_takes_away_one_thing_and_has_its_own_name(name: str, experiment: str) -> None:
    full = from_mapping(composed(f"+experiment={experiment}"))
    ablated = from_mapping(composed(f"+experiment={experiment}", f"+ablation={name}"))
    validate(ablated)
    assert len(differences(full, ablated)) == 2  # its name, and what it takes away
    assert ablated.name == f"{experiment}-{name}"


def test_the_papers_ablations_are_there() -> None:
    paper = "random_seeds binary_reward no_coherence_rewrite no_narrative_planning blind_retry no_retirement"
    assert {*paper.split(), "static_pool"} <= set(ABLATIONS)


def test_the_experiments_that_the_readme_names_are_there() -> None:
    assert {"rods_tiny", "rods_qwen4b"} <= set(EXPERIMENTS)


@pytest.mark.parametrize(("group", "choice"), GROUPS)
def test_each_choice_of_a_group_fits_the_schema(group: str, choice: str) -> None:
    config = from_mapping(composed(f"{group}={choice}"))
    assert isinstance(config, Config)


@pytest.mark.parametrize("choice", ["single", "paper", "envtuning"])
def test_a_choice_of_stages_can_run_with_the_large_experiment(choice: str) -> None:
    validate(from_mapping(composed("+experiment=rods_qwen4b", f"stages={choice}")))


def test_envtunings_schedule_gives_hints_in_its_middle_stages_only() -> None:
    config = from_mapping(composed("+experiment=rods_qwen4b", "stages=envtuning"))
    stages = [within(config, stage) for stage in config.training.stages]
    assert [stage.simulation.hints for stage in stages] == ["none", "envtuning", "envtuning", "none"]
    assert not any(stage.synthesis.enabled for stage in stages)


def schema_keys(section: Any) -> set[str]:
    """Every dotted key of a dataclass; a dictionary's own keys are free and do not count."""
    keys = set()
    for name, kind in get_type_hints(section).items():
        if is_dataclass(kind):
            keys |= {f"{name}.{inner}" for inner in schema_keys(kind)}
        else:
            keys.add(name)
    return keys


def given_keys(section: Any, values: DictConfig) -> set[str]:
    """Every dotted key that the YAML gives, down to where the schema ends."""
    kinds = get_type_hints(section)
    keys = set()
    for name in map(str, values):
        if is_dataclass(kinds.get(name)):
            keys |= {f"{name}.{inner}" for inner in given_keys(kinds[name], values[name])}
        else:
            keys.add(name)
    return keys


@pytest.mark.parametrize(("group", "choice"), [each for each in GROUPS if each[0] not in PARTS])
def test_each_choice_of_a_group_gives_every_key_so_that_none_needs_a_plus(group: str, choice: str) -> None:
    section = get_type_hints(Config)[group]
    assert given_keys(section, composed(f"{group}={choice}")[group]) == schema_keys(section)


def test_every_section_has_a_group_and_every_other_key_a_value() -> None:
    assert given_keys(Config, composed()) == schema_keys(Config)


def test_a_key_that_only_slurm_knows_is_set_without_a_plus() -> None:
    config = from_mapping(composed("cluster.train.mem_gb=8", "cluster.setup=[module load cuda]"))
    assert (config.cluster.train.mem_gb, list(config.cluster.setup)) == (8, ["module load cuda"])


def test_a_composed_configuration_survives_the_way_through_plain_data() -> None:
    config = from_mapping(composed("+experiment=rods_qwen4b"))
    assert from_mapping(config.to_dict()) == config


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["+training.learning_rat=0.1"], "learning_rat"),
        (["+unheard_of.section=1"], "unheard_of"),
        (["training.epochs=many"], "training.epochs"),
        (["launch.mode=maybe"], "launch.mode"),
    ],
)
def test_an_unknown_key_or_a_wrong_type_is_named(overrides: list[str], key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        from_mapping(composed(*overrides))


def test_the_paper_experiment_holds_the_papers_values() -> None:
    config = from_mapping(composed("+experiment=rods_qwen4b"))
    stages = [within(config, stage) for stage in config.training.stages]
    assert [stage.reward.name for stage in stages] == ["format", "progress", "progress"]
    assert [list(stage.task_types) for stage in config.training.stages] == [[], ["base"], []]
    assert [stage.synthesis.enabled for stage in stages] == [False, False, True]
    assert planned_epochs(config) == 15
    assert (config.boundary.alpha_low, config.boundary.alpha_high) == (0.20, 0.85)
    assert (config.buffer.capacity, config.buffer.injection_fraction) == (400, 0.20)
    assert config.training.group_size == 16
    assert config.synthesis.workers == 64


def test_inside_of_launch_py_which_is_hydras_already_a_configuration_is_composed_beside_it() -> None:
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        outer = GlobalHydra.instance().hydra
        assert compose_apart(["seed=7"]).seed == 7
        with pytest.raises(ConfigError, match="nothing"):
            compose_apart(["nothing=7"])
        assert GlobalHydra.instance().hydra is outer
        assert compose("config").seed == 0


def test_a_policy_may_be_scored_greedily_but_not_trained_so() -> None:
    greedy = "rollout.temperature=0.0"
    scored = ["+experiment=evaluate_only", "evaluation.policy=shipped/tiny", greedy]
    assert compose_apart(scored).rollout.temperature == 0
    with pytest.raises(ConfigError, match=r"rollout\.temperature = 0\.0"):
        compose_apart(["+experiment=rods_tiny", greedy])
