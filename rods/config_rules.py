"""The rules between settings: each finds contradictions and says how to mend them.

Kept beside the schema and as light as it: whether an engine is installed is asked of importlib's finder, so
that nothing heavy is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rods.config import Config

TASK_TYPES = ("base", "miss_func", "miss_param", "long_context")
ENGINE_PACKAGES = {"vllm": "vllm", "hf": "transformers"}


@dataclass(frozen=True)
class Problem:
    """One contradiction: which key, which value, why it cannot be, what to do."""

    key: str
    value: Any
    why: str
    fix: str

    def __str__(self) -> str:
        return f"{self.key} = {self.value!r}: {self.why}; {self.fix}"


def problems(config: Config) -> list[Problem]:
    """Every contradiction in `config`, in the order of the sections."""
    return [problem for rule in _RULES for problem in rule(config)]


def _choice(key: str, value: str, choices: tuple[str, ...]) -> Iterator[Problem]:
    if value not in choices:
        yield Problem(key, value, "not a known choice", f"set it to one of {', '.join(choices)}")


def _at_least(key: str, value: float | None, least: float) -> Iterator[Problem]:
    if value is not None and value < least:
        yield Problem(key, value, f"must be at least {least:g}", f"set it to {least:g} or more")


def _positive(key: str, value: float | None) -> Iterator[Problem]:
    if value is not None and value <= 0:
        yield Problem(key, value, "must be above 0", "set a positive value")


def _fraction(key: str, value: float) -> Iterator[Problem]:
    if not 0 < value <= 1:
        yield Problem(key, value, "must lie in (0, 1]", "set a fraction such as 0.2")


def _tasks(config: Config) -> Iterator[Problem]:
    yield from _choice("tasks.source", config.tasks.source, ("scripted", "bfcl"))
    yield from _at_least("tasks.train_count", config.tasks.train_count, 1)
    yield from _at_least("tasks.heldout_count", config.tasks.heldout_count, 0)
    if config.tasks.source == "scripted" and config.tasks.train_count is None:
        yield Problem(
            "tasks.train_count", None, "scripted tasks have no natural number", "set how many to generate"
        )
    limit = {"bfcl": 400}.get(config.tasks.source)
    for key in ("train_count", "heldout_count"):
        value = getattr(config.tasks, key)
        if limit is not None and value is not None and value > limit:
            yield Problem(
                f"tasks.{key}", value, f"{config.tasks.source} has {limit}", f"set at most {limit} or null"
            )
    # Both kinds of task run on BFCL's simulators.
    if find_spec("bfcl_eval") is None:
        yield Problem(
            "tasks.source",
            config.tasks.source,
            "the package bfcl-eval is not installed",
            "run `pip install --no-deps bfcl-eval==2026.3.23`",
        )


def _model(config: Config) -> Iterator[Problem]:
    yield from _choice("model.dtype", config.model.dtype, ("float32", "bfloat16"))
    yield from _at_least("model.max_length", config.model.max_length, 64)
    if config.rollout.max_message_tokens >= config.model.max_length:
        yield Problem(
            "rollout.max_message_tokens",
            config.rollout.max_message_tokens,
            f"a message would not fit in model.max_length = {config.model.max_length}",
            "make it smaller than model.max_length",
        )


def _training(config: Config) -> Iterator[Problem]:
    training = config.training
    yield from _choice("training.algorithm", training.algorithm, ("grpo",))
    yield from _choice(
        "training.loss_aggregation", training.loss_aggregation, ("seq-mean-token-mean", "token-mean")
    )
    if training.group_size < 2:
        yield Problem(
            "training.group_size",
            training.group_size,
            "the advantage of a group of one is always 0",
            "set K to 2 or more (the paper: 16)",
        )
    for name in ("epochs", "tasks_per_step", "mini_batches", "micro_batch_tokens", "keep_checkpoints"):
        yield from _at_least(f"training.{name}", getattr(training, name), 1)
    for name in ("learning_rate", "clip_low", "clip_high", "gradient_clip", "parity_tolerance"):
        yield from _positive(f"training.{name}", getattr(training, name))
    for name in ("kl_coefficient", "entropy_coefficient", "weight_decay", "checkpoint_every_steps"):
        yield from _at_least(f"training.{name}", getattr(training, name), 0)
    if training.clip_low >= 1:
        yield Problem(
            "training.clip_low",
            training.clip_low,
            "the ratio's lower bound would not be positive",
            "set it below 1",
        )
    if training.dual_clip is not None and training.dual_clip <= 1:
        yield Problem(
            "training.dual_clip",
            training.dual_clip,
            "must be above 1",
            "set it to 10 (the lineage's value) or null",
        )
    if not 0 <= training.warmup_fraction < 1:
        yield Problem("training.warmup_fraction", training.warmup_fraction, "must lie in [0, 1)", "set 0.03")
    if training.importance_cap is not None and training.importance_cap < 1:
        yield Problem(
            "training.importance_cap", training.importance_cap, "must be at least 1", "set 2 or null"
        )
    if training.zero_stage not in (0, 1, 2, 3):
        yield Problem(
            "training.zero_stage", training.zero_stage, "DeepSpeed knows stages 0 to 3", "set one of them"
        )
    rollouts = training.tasks_per_step * training.group_size
    if training.mini_batches >= 1 and rollouts % training.mini_batches:
        yield Problem(
            "training.mini_batches",
            training.mini_batches,
            f"{rollouts} rollouts a step cannot be divided evenly",
            f"set a divisor of {rollouts}",
        )
    if training.micro_batch_tokens < config.model.max_length:
        yield Problem(
            "training.micro_batch_tokens",
            training.micro_batch_tokens,
            f"one episode may have model.max_length = {config.model.max_length} tokens",
            f"set at least {config.model.max_length}",
        )


def _rollout(config: Config) -> Iterator[Problem]:
    rollout = config.rollout
    yield from _choice("rollout.engine", rollout.engine, ("auto", "hf", "vllm"))
    package = ENGINE_PACKAGES.get(rollout.engine)
    # A Slurm job's compute nodes, not this login node, must have the engine.
    if package and config.cluster.kind == "local" and find_spec(package) is None:
        yield Problem(
            "rollout.engine",
            rollout.engine,
            f"the package {package} is not installed",
            "run `pip install -e '.[cpu]'` (or '.[gpu]'), or set rollout.engine=hf",
        )
    yield from _positive("rollout.temperature", rollout.temperature)
    yield from _fraction("rollout.top_p", rollout.top_p)
    yield from _fraction("rollout.gpu_memory_fraction", rollout.gpu_memory_fraction)
    yield from _at_least("rollout.max_message_tokens", rollout.max_message_tokens, 1)
    yield from _at_least("rollout.max_concurrent", rollout.max_concurrent, 1)
    yield from _at_least("rollout.cpu_cache_gib", rollout.cpu_cache_gib, 1)


def _synthesis(config: Config) -> Iterator[Problem]:
    synthesis = config.synthesis
    yield from _choice("synthesis.backend", synthesis.backend, ("scripted", "openai"))
    for name in ("workers", "max_attempts", "variants_per_seed", "max_string", "max_list"):
        yield from _at_least(f"synthesis.{name}", getattr(synthesis, name), 1)
    yield from _fraction("synthesis.top_p", synthesis.top_p)
    if not 0 <= synthesis.max_profile_distance <= 1:
        yield Problem(
            "synthesis.max_profile_distance",
            synthesis.max_profile_distance,
            "Φ distances lie in [0, 1]",
            "set 0.25",
        )
    if synthesis.enabled and synthesis.backend == "openai" and not synthesis.model:
        yield Problem(
            "synthesis.model", synthesis.model, "the openai backend needs a model", "name the served model"
        )


def _boundary(config: Config) -> Iterator[Problem]:
    boundary = config.boundary
    if boundary.alpha_low >= boundary.alpha_high:
        yield Problem(
            "boundary.alpha_low",
            boundary.alpha_low,
            f"α₋ must lie below α₊ (boundary.alpha_high = {boundary.alpha_high}): the boundary zone is empty",
            "set α₋ < α₊ (the paper: 0.20 and 0.85)",
        )
    for name in ("alpha_low", "alpha_high"):
        value = getattr(boundary, name)
        if not 0 <= value <= 1:
            yield Problem(f"boundary.{name}", value, "mean rewards lie in [0, 1]", "set a value in [0, 1]")
    yield from _at_least("boundary.max_seeds", boundary.max_seeds, 0)
    yield from _at_least("boundary.exclusion_steps", boundary.exclusion_steps, 0)
    unknown = sorted(set(boundary.quotas) - set(TASK_TYPES))
    if unknown:
        yield Problem(
            "boundary.quotas",
            dict(boundary.quotas),
            f"unknown task types {unknown}",
            f"use {', '.join(TASK_TYPES)}",
        )
    for name, quota in boundary.quotas.items():
        yield from _at_least(f"boundary.quotas.{name}", quota, 0)
    total = sum(boundary.quotas.values())
    if total > boundary.max_seeds:
        yield Problem(
            "boundary.quotas",
            dict(boundary.quotas),
            f"the quotas sum to {total}, above M (boundary.max_seeds = {boundary.max_seeds})",
            f"lower the quotas or set boundary.max_seeds={total}",
        )
    if config.synthesis.enabled and not boundary.quotas:
        yield Problem(
            "boundary.quotas", {}, "no type may become a seed", "give each task type a quota, e.g. {base: 4}"
        )


def _buffer(config: Config) -> Iterator[Problem]:
    buffer = config.buffer
    if buffer.capacity < 0:
        yield Problem(
            "buffer.capacity", buffer.capacity, "P_max cannot be negative", "set 0 for a static pool, or 400"
        )
    if not 0 < buffer.injection_fraction <= 1:
        yield Problem(
            "buffer.injection_fraction",
            buffer.injection_fraction,
            "β must lie in (0, 1]",
            "set 0.2 (the paper's value)",
        )
    yield from _at_least("buffer.burn_in", buffer.burn_in, 0)
    yield from _at_least("buffer.stale_epochs", buffer.stale_epochs, 1)
    yield from _positive("buffer.barrier_timeout_s", buffer.barrier_timeout_s)
    if buffer.drift_low >= buffer.drift_high:
        yield Problem(
            "buffer.drift_low",
            buffer.drift_low,
            f"must lie below buffer.drift_high = {buffer.drift_high}: every variant would be retired at once",
            "set drift_low < drift_high (the paper: 0.20 and 0.95)",
        )


def _reward(config: Config) -> Iterator[Problem]:
    yield from _choice("reward.name", config.reward.name, ("progress", "binary", "format"))
    yield from _choice("reward.empty_turn", config.reward.empty_turn, ("envtuning", "official"))
    yield from _at_least("simulation.step_limit", config.simulation.step_limit, 1)
    yield from _choice("simulation.protocol", config.simulation.protocol, ("hermes", "envtuning"))
    yield from _choice("simulation.hints", config.simulation.hints, ("none", "envtuning"))
    yield from _choice("simulation.types", config.simulation.types, ("schema", "official"))
    yield from _choice("simulation.at_limit", config.simulation.at_limit, ("end_turn", "force_quit"))
    yield from _at_least("simulation.max_result_chars", config.simulation.max_result_chars, 100)
    yield from _choice("simulation.mcp", config.simulation.mcp, ("replay", "record"))


def _cluster(config: Config) -> Iterator[Problem]:
    cluster = config.cluster
    yield from _choice("cluster.kind", cluster.kind, ("local", "slurm"))
    yield from _choice("cluster.coschedule", cluster.coschedule, ("het",))
    yield from _positive("cluster.time_hours", cluster.time_hours)
    yield from _at_least("cluster.signal_seconds", cluster.signal_seconds, 1)
    for role in ("train", "synthesis"):
        job = getattr(cluster, role)
        yield from _at_least(f"cluster.{role}.nodes", job.nodes, 1)
        yield from _at_least(f"cluster.{role}.gpus_per_node", job.gpus_per_node, 0)
        yield from _at_least(f"cluster.{role}.cpus_per_task", job.cpus_per_task, 1)


def _tracking(config: Config) -> Iterator[Problem]:
    yield from _choice("tracking.wandb", config.tracking.wandb, ("auto", "online", "offline", "disabled"))
    yield from _at_least("tracking.rollouts_per_group", config.tracking.rollouts_per_group, 0)
    yield from _positive("launch.heartbeat_timeout_s", config.launch.heartbeat_timeout_s)


_RULES: tuple[Callable[[Config], Iterator[Problem]], ...] = (
    _tasks,
    _model,
    _training,
    _rollout,
    _synthesis,
    _boundary,
    _buffer,
    _reward,
    _cluster,
    _tracking,
)
