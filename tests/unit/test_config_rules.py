"""Every contradiction is refused before anything starts, by key, value and fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from importlib.machinery import ModuleSpec
from math import inf, isfinite, nan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rods.config import BufferConfig, Config, ConfigError, from_mapping, rules, validate
from rods.config.checks import Problem, at_least, at_most, finite, fraction, positive
from rods.config.rules import learning, rollout, stages

GOOD: dict[str, Any] = {
    "tasks": {"train_count": 48, "heldout_count": 48},
    "rollout": {"engine": "hf"},
    "boundary": {"quotas": {"base": 4}},
}
NOTHING_HELD_OUT = {"tasks.heldout_count": 0, "tasks.validation_count": 0}
# (dotted key: value, …) to change in GOOD, and the key that the refusal names first.
CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"tasks.source": "mmlu"}, "tasks.source"),
    ({"tasks.train_count": 0}, "tasks.train_count"),
    ({"tasks.train_count": None}, "tasks.train_count"),
    ({"tasks.heldout_count": -1}, "tasks.heldout_count"),
    ({"tasks.source": "bfcl", "tasks.train_count": 401}, "tasks.train_count"),
    ({"tasks.source": "bfcl", "tasks.heldout_count": 401}, "tasks.heldout_count"),
    ({"tasks.heldout_count": None}, "tasks.heldout_count"),
    ({"tasks.validation_count": None}, "tasks.validation_count"),
    ({"tasks.validation_count": -1}, "tasks.validation_count"),
    ({"tasks.validation_count": 1_000_001}, "tasks.validation_count"),
    ({"tasks.train_count": 1_000_001}, "tasks.train_count"),
    ({"tasks.heldout_count": 1_000_001}, "tasks.heldout_count"),
    ({"tasks.seed": -1}, "tasks.seed"),
    ({"tasks.seed": 2**63}, "tasks.seed"),
    ({"seed": -1}, "seed"),
    ({"seed": 2**63}, "seed"),
    ({"launch.stop_deadline_s": -1.0}, "launch.stop_deadline_s"),
    ({"launch.watchdog_s": -1.0}, "launch.watchdog_s"),
    (
        {"cluster.kind": "slurm", "cluster.signal_seconds": 20, "launch.stop_deadline_s": 20.0},
        "launch.stop_deadline_s",
    ),
    ({"rollout.max_episode_tokens": 80}, "rollout.max_episode_tokens"),
    ({"rollout.max_episode_tokens": 1025}, "rollout.max_episode_tokens"),
    ({"model.dtype": "float16"}, "model.dtype"),
    ({"model.max_length": 8}, "model.max_length"),
    ({"model.tools_in_prompt": True, "model.tool_names_in_prompt": True}, "model.tool_names_in_prompt"),
    ({"rollout.max_message_tokens": 1024}, "rollout.max_message_tokens"),
    ({"rollout.max_message_tokens": 0}, "rollout.max_message_tokens"),
    ({"rollout.placement": "remote"}, "rollout.placement"),
    ({"rollout.transfer": "rdma"}, "rollout.transfer"),
    ({"rollout.answer_timeout_s": 0.0}, "rollout.answer_timeout_s"),
    ({"rollout.server.ready_timeout_s": 0.0}, "rollout.server.ready_timeout_s"),
    ({"rollout.placement": "served", "rollout.engine": "hf"}, "rollout.engine"),
    ({"rollout.servers": ["http://a:1"]}, "rollout.servers"),
    ({"rollout.placement": "served", "rollout.servers": ["a:1"]}, "rollout.servers"),
    ({"rollout.placement": "served", "rollout.servers": ["http://a:1/v1"]}, "rollout.servers"),
    (
        {"rollout.placement": "served", "rollout.servers": ["http://a:1"], "rollout.transfer": "disk"},
        "rollout.transfer_dir",
    ),
    ({"rollout.one_step_off": True, "training.importance_cap": None}, "training.importance_cap"),
    ({"training.max_resamples": -1}, "training.max_resamples"),
    ({"training.algorithm": "reinforce"}, "training.algorithm"),
    ({"training.credit": "token"}, "training.credit"),
    ({"training.credit": "turn", "reward.name": "binary"}, "training.credit"),
    ({"training.algorithm": "ppo", "training.skip_zero_variance": True}, "training.skip_zero_variance"),
    ({"training.critic.learning_rate": 0.0}, "training.critic.learning_rate"),
    ({"training.critic.clip": 0.0}, "training.critic.clip"),
    ({"training.critic.alone_steps": -1}, "training.critic.alone_steps"),
    ({"training.critic.warmup_fraction": 1.0}, "training.critic.warmup_fraction"),
    ({"training.critic.discount": 0.0}, "training.critic.discount"),
    ({"training.critic.discount": 1.5}, "training.critic.discount"),
    ({"training.critic.gae_lambda": -0.1}, "training.critic.gae_lambda"),
    ({"training.critic.gae_lambda": 1.1}, "training.critic.gae_lambda"),
    ({"training.loss_aggregation": "sum"}, "training.loss_aggregation"),
    ({"training.group_size": 1}, "training.group_size"),
    ({"training.ranks_per_node": 0}, "training.ranks_per_node"),
    ({"training.ranks_per_node": 5}, "training.tasks_per_step"),
    ({"training.epochs": 0}, "training.epochs"),
    ({"training.tasks_per_step": 0}, "training.tasks_per_step"),
    ({"training.mini_batches": 0}, "training.mini_batches"),
    ({"training.mini_batches": 5}, "training.mini_batches"),
    ({"training.micro_batch_tokens": 512}, "training.micro_batch_tokens"),
    ({"training.tasks_per_step": 1, "cluster.train.gpus_per_node": 3}, "training.tasks_per_step"),
    (
        {"training.skip_zero_variance": True, "training.group_size": 4, "cluster.train.gpus_per_node": 8},
        "training.group_size",
    ),
    ({"training.keep_checkpoints": 0}, "training.keep_checkpoints"),
    ({"training.keep_best": "worst"}, "training.keep_best"),
    ({"training.learning_rate": 0.0}, "training.learning_rate"),
    ({"training.clip_low": 0.0}, "training.clip_low"),
    ({"training.clip_low": 1.0}, "training.clip_low"),
    ({"training.clip_high": 0.0}, "training.clip_high"),
    ({"training.gradient_clip": -1.0}, "training.gradient_clip"),
    ({"training.parity_tolerance": 0.0}, "training.parity_tolerance"),
    ({"training.kl_coefficient": -0.1}, "training.kl_coefficient"),
    ({"training.entropy_coefficient": -0.1}, "training.entropy_coefficient"),
    ({"training.weight_decay": -0.1}, "training.weight_decay"),
    ({"training.checkpoint_every_steps": -1}, "training.checkpoint_every_steps"),
    ({"training.evaluate_every_epochs": -1}, "training.evaluate_every_epochs"),
    ({"training.trajectories": 0}, "training.trajectories"),
    ({"training.trajectories": 17, "training.group_size": 8}, "training.trajectories"),
    ({"training.evaluate_every_steps": -1}, "training.evaluate_every_steps"),
    ({"evaluation.suite": "mmlu"}, "evaluation.suite"),
    ({"evaluation.split": "test"}, "evaluation.split"),
    ({"evaluation.policy": "runs/one"}, "evaluation.policy"),
    ({"evaluation.enabled": True, "synthesis.enabled": False}, "evaluation.policy"),
    ({"evaluation.enabled": True, "evaluation.policy": "runs/one"}, "synthesis.enabled"),
    (
        {
            "evaluation.enabled": True,
            "evaluation.policy": "runs/one",
            "synthesis.enabled": False,
            "cluster.kind": "slurm",
            "cluster.train.nodes": 2,
        },
        "cluster.train.nodes",
    ),
    ({"training.evaluation_modes": []}, "training.evaluation_modes"),
    ({"training.evaluation_modes": ["beam"]}, "training.evaluation_modes"),
    ({"training.evaluation_modes": ["greedy", "greedy"]}, "training.evaluation_modes"),
    ({"training.evaluation_modes": ["greedy"], "training.keep_best": "sampled"}, "training.keep_best"),
    ({"training.keep_best": "greedy", **NOTHING_HELD_OUT}, "training.keep_best"),
    ({"training.evaluate_every_steps": 1, **NOTHING_HELD_OUT}, "training.evaluate_every_steps"),
    ({"training.evaluate_every_epochs": 1, **NOTHING_HELD_OUT}, "training.evaluate_every_epochs"),
    ({"training.threads": 0}, "training.threads"),
    ({"training.adam_betas": [0.9]}, "training.adam_betas"),
    ({"training.adam_betas": [0.9, 0.95, 0.99]}, "training.adam_betas"),
    ({"training.adam_betas": [0.9, 1.0]}, "training.adam_betas"),
    ({"training.adam_betas": [-0.1, 0.95]}, "training.adam_betas"),
    ({"training.adam_betas": [0.9, nan]}, "training.adam_betas"),
    ({"training.dual_clip": 1.0}, "training.dual_clip"),
    ({"training.warmup_fraction": 1.0}, "training.warmup_fraction"),
    ({"training.importance_cap": 0.5}, "training.importance_cap"),
    ({"training.zero_stage": 4}, "training.zero_stage"),
    ({"rollout.engine": "sglang"}, "rollout.engine"),
    ({"rollout.temperature": 0.0}, "rollout.temperature"),
    ({"rollout.top_p": 0.0}, "rollout.top_p"),
    ({"rollout.top_p": 1.5}, "rollout.top_p"),
    ({"rollout.gpu_memory_fraction": 0.0}, "rollout.gpu_memory_fraction"),
    ({"rollout.max_concurrent": 0}, "rollout.max_concurrent"),
    ({"rollout.cpu_cache_gib": 0}, "rollout.cpu_cache_gib"),
    ({"synthesis.backend": "oracle"}, "synthesis.backend"),
    ({"synthesis.workers": 0}, "synthesis.workers"),
    ({"synthesis.max_attempts": 0}, "synthesis.max_attempts"),
    ({"synthesis.variants_per_seed": 0}, "synthesis.variants_per_seed"),
    ({"synthesis.max_string": 0}, "synthesis.max_string"),
    ({"synthesis.max_list": 0}, "synthesis.max_list"),
    ({"synthesis.temperature": -0.1}, "synthesis.temperature"),
    ({"synthesis.top_p": 0.0}, "synthesis.top_p"),
    ({"synthesis.retry": "sometimes"}, "synthesis.retry"),
    ({"synthesis.max_similarity": 0.0}, "synthesis.max_similarity"),
    ({"synthesis.max_similarity": 1.1}, "synthesis.max_similarity"),
    ({"synthesis.min_long_observation": -1}, "synthesis.min_long_observation"),
    ({"boundary.selection": "oldest"}, "boundary.selection"),
    ({"boundary.depth_shift": "1"}, "boundary.depth_shift"),
    ({"boundary.depth_shift": "adaptive", "boundary.selection": "uniform"}, "boundary.depth_shift"),
    ({"boundary.depth_shift": "adaptive", "synthesis.narrative_planning": False}, "boundary.depth_shift"),
    ({"boundary.dry_below": 0.0}, "boundary.dry_below"),
    ({"boundary.dry_below": 1.5}, "boundary.dry_below"),
    ({"boundary.posterior_rollouts": 0}, "boundary.posterior_rollouts"),
    ({"boundary.posterior_forgetting": 0.0}, "boundary.posterior_forgetting"),
    ({"boundary.posterior_forgetting": 1.1}, "boundary.posterior_forgetting"),
    ({"buffer.injection": "step"}, "buffer.injection"),
    ({"buffer.sampling": "greedy"}, "buffer.sampling"),
    ({"buffer.review_epochs": -1}, "buffer.review_epochs"),
    ({"synthesis.max_profile_distance": 1.5}, "synthesis.max_profile_distance"),
    ({"synthesis.backend": "openai", "synthesis.model": ""}, "synthesis.model"),
    ({"boundary.alpha_low": 0.85}, "boundary.alpha_low"),
    ({"boundary.alpha_low": 0.9}, "boundary.alpha_low"),
    ({"boundary.alpha_low": -0.1}, "boundary.alpha_low"),
    ({"boundary.alpha_high": 1.1}, "boundary.alpha_high"),
    ({"boundary.max_seeds": -1, "boundary.quotas": {"base": 0}}, "boundary.max_seeds"),
    ({"boundary.exclusion_steps": -1}, "boundary.exclusion_steps"),
    ({"boundary.quotas": {"bass": 4}}, "boundary.quotas"),
    ({"boundary.quotas": {"base": -1}}, "boundary.quotas.base"),
    ({"boundary.quotas": {"base": 10, "miss_func": 7}}, "boundary.quotas"),
    ({"boundary.quotas": {}}, "boundary.quotas"),
    ({"buffer.capacity": -1}, "buffer.capacity"),
    ({"buffer.injection_fraction": 0.0}, "buffer.injection_fraction"),
    ({"buffer.injection_fraction": 1.01}, "buffer.injection_fraction"),
    ({"buffer.burn_in": -1}, "buffer.burn_in"),
    ({"buffer.stale_epochs": 0}, "buffer.stale_epochs"),
    ({"buffer.barrier_timeout_s": 0.0}, "buffer.barrier_timeout_s"),
    ({"buffer.drift_low": 0.95}, "buffer.drift_low"),
    ({"exchange.fsync": "sometimes"}, "exchange.fsync"),
    ({"exchange.lease_s": 0.0}, "exchange.lease_s"),
    ({"exchange.max_deliveries": 0}, "exchange.max_deliveries"),
    ({"exchange.seed_batch": 0}, "exchange.seed_batch"),
    ({"exchange.max_ready_seeds": 0}, "exchange.max_ready_seeds"),
    ({"exchange.mode": "0550"}, "exchange.mode"),
    ({"exchange.mode": "rwxr-x---"}, "exchange.mode"),
    ({"reward.name": "bleu"}, "reward.name"),
    ({"reward.name": "format"}, "reward.name"),
    ({"reward.empty_turn": "maybe"}, "reward.empty_turn"),
    ({"simulation.step_limit": 0}, "simulation.step_limit"),
    ({"simulation.max_result_chars": 10}, "simulation.max_result_chars"),
    ({"cluster.kind": "kubernetes"}, "cluster.kind"),
    ({"cluster.coschedule": "never"}, "cluster.coschedule"),
    ({"cluster.time_hours": 0.0}, "cluster.time_hours"),
    ({"cluster.signal_seconds": 0}, "cluster.signal_seconds"),
    ({"cluster.train.nodes": 0}, "cluster.train.nodes"),
    ({"cluster.kind": "local", "cluster.train.nodes": 2}, "cluster.train.nodes"),
    ({"cluster.train.gpus_per_node": -1}, "cluster.train.gpus_per_node"),
    ({"cluster.synthesis.cpus_per_task": 0}, "cluster.synthesis.cpus_per_task"),
    ({"cluster.train.mem_gb": -1}, "cluster.train.mem_gb"),
    ({"tracking.wandb": "sometimes"}, "tracking.wandb"),
    ({"launch.runs_dir": ""}, "launch.runs_dir"),
    ({"launch.runs_dir": " "}, "launch.runs_dir"),
    ({"launch.heartbeat_timeout_s": 0.0}, "launch.heartbeat_timeout_s"),
    ({"launch.max_stalled_attempts": 0}, "launch.max_stalled_attempts"),
    ({"launch.max_parallel": -1}, "launch.max_parallel"),
]


def changed(changes: dict[str, Any]) -> dict[str, Any]:
    """GOOD with some dotted keys set."""
    data: dict[str, Any] = {section: dict(values) for section, values in GOOD.items()}
    for dotted, value in changes.items():
        *path, last = dotted.split(".")
        node = data
        for name in path:
            node = node.setdefault(name, {})
        node[last] = value
    return data


def value_of(config: Any, dotted: str) -> Any:
    """The value that stands under a dotted key."""
    for name in dotted.split("."):
        config = config[name] if isinstance(config, dict) else getattr(config, name)
    return config


def float_keys(config: Any, prefix: str = "") -> Iterator[str]:
    """The dotted key of every number with a fraction in the schema, found by its value's or declared type."""
    for field in fields(config):
        key, value = prefix + field.name, getattr(config, field.name)
        if is_dataclass(value):
            yield from float_keys(value, key + ".")
        elif field.type in ("float", "float | None"):
            yield key


FLOAT_KEYS = sorted(float_keys(Config()))


def test_the_good_configuration_is_accepted() -> None:
    validate(from_mapping(GOOD))


@pytest.mark.parametrize(("changes", "key"), CONTRADICTIONS, ids=lambda value: str(value))
def test_a_contradiction_is_refused_by_key_value_and_fix(changes: dict[str, Any], key: str) -> None:
    config = from_mapping(changed(changes))
    with pytest.raises(ConfigError) as refused:
        validate(config)
    lines = [line.strip() for line in str(refused.value).splitlines()[1:]]
    named = [line for line in lines if line.startswith(f"{key} = {value_of(config, key)!r}: ")]
    assert named, f"no line names {key}: {lines}"
    why, _, fix = named[0].partition(": ")[2].partition("; ")
    assert why
    assert fix.split()[0] in ("set", "use", "run", "lower", "make", "name", "give")


@pytest.mark.parametrize("key", FLOAT_KEYS)
def test_a_number_that_is_not_finite_is_refused_by_its_key(key: str) -> None:
    for text in ("nan", "inf", "-inf"):
        with pytest.raises(ConfigError, match=rf"{key} = {text}: not a finite number; set"):
            validate(from_mapping(changed({key: text})))


def test_the_schemas_floats_were_found() -> None:
    assert {"training.learning_rate", "training.dual_clip", "cluster.time_hours"} <= set(FLOAT_KEYS)


_LEAVES = st.floats() | st.integers() | st.booleans() | st.none() | st.text()


@settings(deadline=None, max_examples=50)
@given(st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner)))
def test_exactly_the_floats_that_are_not_finite_are_found_at_any_depth(value: Any) -> None:
    def count(node: Any) -> int:
        if isinstance(node, dict | list):
            return sum(map(count, node.values() if isinstance(node, dict) else node))
        return isinstance(node, float) and not isfinite(node)

    assert len(list(finite("root", value))) == count(value)


def test_a_float_in_a_list_is_named_by_its_place() -> None:
    (problem,) = finite("", {"a": {"b": [0.5, inf]}})
    assert problem.key == "a.b[1]"


def test_no_range_lets_nan_through() -> None:
    checks = (at_least("k", nan, 0), at_most("k", nan, 1, "why"), positive("k", nan), fraction("k", nan))
    assert [len(list(check)) for check in checks] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 2**63 - 1, "tasks.seed": 2**63 - 1},
        {"tasks.train_count": 1_000_000, "tasks.heldout_count": 0},
        {"tasks.source": "bfcl", "tasks.train_count": None, "tasks.heldout_count": None},
        {"training.threads": None, "training.adam_betas": [0.0, 0.999]},
        {"training.threads": 1, "training.evaluate_every_epochs": 0, "synthesis.temperature": 0.0},
        {"reward.name": "format", "synthesis.enabled": False},
    ],
    ids=str,
)
def test_the_ends_of_a_range_are_accepted(changes: dict[str, Any]) -> None:
    validate(from_mapping(changed(changes)))


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigError, match=r"2 problem\(s\)") as refused:
        validate(from_mapping(changed({"training.group_size": 1, "buffer.capacity": -1})))
    assert "training.group_size" in str(refused.value)
    assert "buffer.capacity" in str(refused.value)


@pytest.mark.parametrize(
    ("package", "key", "fix"),
    [
        ("bfcl_eval", "tasks.source", "pip install --no-deps bfcl-eval"),
        ("transformers", "rollout.engine", "pip install"),
    ],
)
def test_a_missing_package_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, package: str, key: str, fix: str
) -> None:
    real = learning.find_spec

    def without(name: str) -> ModuleSpec | None:
        return None if name == package else real(name)

    monkeypatch.setattr(learning, "find_spec", without)
    monkeypatch.setattr(rollout, "find_spec", without)
    with pytest.raises(ConfigError) as refused:
        validate(from_mapping(GOOD))
    assert key in str(refused.value)
    assert fix in str(refused.value)


def test_a_compute_nodes_engine_is_not_looked_for_on_the_login_node(monkeypatch: pytest.MonkeyPatch) -> None:
    real = rollout.find_spec
    monkeypatch.setattr(rollout, "find_spec", lambda name: None if name == "transformers" else real(name))
    validate(from_mapping(changed({"cluster.kind": "slurm"})))


@pytest.mark.parametrize(
    "rule",
    [rule for rule in rules.RULES if rule not in stages.RULES],  # those have a table of their own
    ids=lambda rule: rule.__name__,
)
def test_every_rule_has_a_row_in_the_table(rule: Callable[[Config], Iterator[Problem]]) -> None:
    section = {
        "_finite": ("training",),
        "_depth_shift": ("boundary",),
        "_budget": ("training",),
        "_in_training": ("training",),
        "_alone": ("evaluation",),
        "_objective": ("training",),
        "_credit": ("training",),
        "_critic": ("training",),
        "_batches": ("training",),
        "_seeds": ("seed", "tasks"),
        "_reward": ("reward", "simulation"),
        "_model": ("model", "rollout"),
        "_placement": ("rollout",),
        "_one_step_off": ("training",),
        "_tracking": ("tracking", "launch"),
    }
    sections = section.get(rule.__name__, (rule.__name__.strip("_"),))
    rows = [changes for changes, key in CONTRADICTIONS if key.split(".")[0] in sections]
    assert any(list(rule(from_mapping(changed(changes)))) for changes in rows)


@settings(deadline=None, max_examples=50)
@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-2, max_value=2))
def test_beta_is_accepted_exactly_on_its_interval(beta: float) -> None:
    config = replace(Config(), buffer=BufferConfig(injection_fraction=beta))
    keys = {problem.key for problem in rules.problems(config)}
    assert ("buffer.injection_fraction" not in keys) == (0 < beta <= 1)
