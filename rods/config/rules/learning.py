"""Rules for what is learned and how.

Whether an engine is installed is asked of importlib's finder, so that nothing heavy is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

from rods.config.checks import Problem, at_least, at_most, choice, fraction, positive

if TYPE_CHECKING:
    from rods.config import Config

LARGEST_SEED = 2**63 - 1  # the seeds of torch and vLLM are signed 64-bit numbers
# Scripted tasks are drawn one by one at the start and kept in memory by both roles: a slip of the finger on the
# count would look like a run that hangs.
MOST_SCRIPTED = 1_000_000


def _seeds(config: Config) -> Iterator[Problem]:
    for key, seed in (("seed", config.seed), ("tasks.seed", config.tasks.seed)):
        yield from at_least(key, seed, 0)
        yield from at_most(key, seed, LARGEST_SEED, "seeds are signed 64-bit numbers")


def _count(source: str, key: str, count: int | None) -> Iterator[Problem]:
    if source == "bfcl":
        yield from at_most(key, count, 400, "bfcl has 400 in each half of its split")
    if source == "scripted":
        yield from at_most(key, count, MOST_SCRIPTED, "so many generated tasks would not fit in memory")
    if source == "scripted" and count is None:
        yield Problem(key, None, "scripted tasks have no natural number", "set how many to generate")


def _tasks(config: Config) -> Iterator[Problem]:
    yield from choice("tasks.source", config.tasks.source, ("scripted", "bfcl", "file"))
    if (config.tasks.source == "file") is not bool(config.tasks.path):
        yield Problem(
            "tasks.path",
            config.tasks.path,
            f"tasks.source is {config.tasks.source}; the path belongs to the source file",
            "set tasks=file tasks.path=FOLDER together, or neither",
        )
    yield from at_least("tasks.train_count", config.tasks.train_count, 1)
    yield from at_least("tasks.heldout_count", config.tasks.heldout_count, 0)
    yield from at_least("tasks.validation_count", config.tasks.validation_count, 0)
    for key in ("train_count", "heldout_count", "validation_count"):
        yield from _count(config.tasks.source, f"tasks.{key}", getattr(config.tasks, key))
    # Both kinds of task run on BFCL's simulators.
    if find_spec("bfcl_eval") is None:
        yield Problem(
            "tasks.source",
            config.tasks.source,
            "the package bfcl-eval is not installed",
            "run `pip install --no-deps bfcl-eval==2026.3.23`",
        )


def _model(config: Config) -> Iterator[Problem]:
    yield from choice("model.dtype", config.model.dtype, ("float32", "bfloat16"))
    yield from at_least("model.max_length", config.model.max_length, 64)
    if config.model.tools_in_prompt and config.model.tool_names_in_prompt:
        yield Problem(
            "model.tool_names_in_prompt",
            True,
            "model.tools_in_prompt writes the whole documentation, names and all",
            "set one of the two to false",
        )
    if config.rollout.max_message_tokens >= config.model.max_length:
        yield Problem(
            "rollout.max_message_tokens",
            config.rollout.max_message_tokens,
            f"a message would not fit in model.max_length = {config.model.max_length}",
            "make it smaller than model.max_length",
        )


def _training(config: Config) -> Iterator[Problem]:
    training = config.training
    yield from choice("training.algorithm", training.algorithm, ("grpo", "ppo"))
    aggregations = ("seq-mean-token-mean", "token-mean")
    yield from choice("training.loss_aggregation", training.loss_aggregation, aggregations)
    for name in ("epochs", "keep_checkpoints", "ranks_per_node", "threads"):
        yield from at_least(f"training.{name}", getattr(training, name), 1)
    for name in ("checkpoint_every_steps", "max_resamples"):
        yield from at_least(f"training.{name}", getattr(training, name), 0)
    yield from positive("training.parity_tolerance", training.parity_tolerance)
    if training.zero_stage not in (0, 1, 2, 3):
        yield Problem(
            "training.zero_stage", training.zero_stage, "DeepSpeed knows stages 0 to 3", "set one of them"
        )


def _budget(config: Config) -> Iterator[Problem]:
    count, size = config.training.trajectories, config.training.group_size
    yield from at_least("training.trajectories", count, 1)
    if count is not None and size > 0 and count % size:
        yield Problem(
            "training.trajectories",
            count,
            f"not whole groups of training.group_size = {size}",
            f"set {max(1, count // size) * size}, or null to end with the last epoch",
        )


def _objective(config: Config) -> Iterator[Problem]:
    training = config.training
    for name in ("learning_rate", "clip_low", "clip_high", "gradient_clip"):
        yield from positive(f"training.{name}", getattr(training, name))
    for name in ("kl_coefficient", "entropy_coefficient", "weight_decay"):
        yield from at_least(f"training.{name}", getattr(training, name), 0)
    if training.clip_low >= 1:
        yield Problem(
            "training.clip_low", training.clip_low, "the ratio's bound would not be above 0", "set 0.2"
        )
    if training.dual_clip is not None and training.dual_clip <= 1:
        yield Problem(
            "training.dual_clip", training.dual_clip, "must be above 1", "set 10 (the lineage) or null"
        )
    if not 0 <= training.warmup_fraction < 1:
        yield Problem("training.warmup_fraction", training.warmup_fraction, "must lie in [0, 1)", "set 0.03")
    yield from at_least("training.importance_cap", training.importance_cap, 1)
    betas = training.adam_betas
    if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
        yield Problem("training.adam_betas", betas, "AdamW needs two numbers in [0, 1)", "set [0.9, 0.95]")


def _credit(config: Config) -> Iterator[Problem]:
    training = config.training
    yield from choice("training.credit", training.credit, ("episode", "turn"))
    if training.credit == "turn" and config.reward.name != "progress":
        yield Problem(
            "training.credit",
            training.credit,
            f"the reward {config.reward.name} is no sum over user turns",
            "set reward=progress or training.credit=episode",
        )
    if training.skip_zero_variance and training.algorithm == "ppo":
        yield Problem(
            "training.skip_zero_variance",
            True,
            "under ppo a group of equal rewards has signal: the critic is the baseline",
            "set it to false or training.algorithm=grpo",
        )


def _critic(config: Config) -> Iterator[Problem]:
    critic = config.training.critic
    for name in ("learning_rate", "clip"):
        yield from positive(f"training.critic.{name}", getattr(critic, name))
    yield from at_least("training.critic.alone_steps", critic.alone_steps, 0)
    if not 0 <= critic.warmup_fraction < 1:
        yield Problem(
            "training.critic.warmup_fraction", critic.warmup_fraction, "must lie in [0, 1)", "set 0.03"
        )
    yield from fraction("training.critic.discount", critic.discount)
    if not 0 <= critic.gae_lambda <= 1:
        yield Problem("training.critic.gae_lambda", critic.gae_lambda, "must lie in [0, 1]", "set 0.95")


def _batches(config: Config) -> Iterator[Problem]:
    training = config.training
    for name in ("tasks_per_step", "mini_batches", "micro_batch_tokens"):
        yield from at_least(f"training.{name}", getattr(training, name), 1)
    if training.group_size < 2:
        yield Problem(
            "training.group_size",
            training.group_size,
            "the advantage of a group of one is always 0",
            "set K to 2 or more (the paper: 16)",
        )
    rollouts = training.tasks_per_step * training.group_size
    if training.mini_batches >= 1 and rollouts % training.mini_batches:
        yield Problem(
            "training.mini_batches",
            training.mini_batches,
            f"{rollouts} rollouts a step cannot be divided evenly",
            f"set a divisor of {rollouts}",
        )
    # A GPU has a rank of its own. Without the groups left out, whole groups must still be shared equally.
    cluster, per_node = config.cluster.train, training.ranks_per_node
    ranks = cluster.nodes * (max(1, cluster.gpus_per_node) if per_node is None else per_node)
    key = "group_size" if training.skip_zero_variance else "tasks_per_step"
    shared = training.group_size if training.skip_zero_variance else rollouts
    if ranks >= 1 and shared % ranks:
        yield Problem(
            f"training.{key}",
            getattr(training, key),
            f"{shared} rollouts cannot be shared equally by {ranks} ranks",
            f"make it so that {ranks} divides them, or change training.ranks_per_node or cluster.train",
        )
    if training.micro_batch_tokens < config.model.max_length:
        yield Problem(
            "training.micro_batch_tokens",
            training.micro_batch_tokens,
            f"one episode may have model.max_length = {config.model.max_length} tokens",
            f"set at least {config.model.max_length}",
        )


def _reward(config: Config) -> Iterator[Problem]:
    yield from choice("reward.name", config.reward.name, ("progress", "binary", "format"))
    # The curriculum's zones and φ = 4r̄(1 − r̄) are defined for rewards in [0, 1]; the format reward reaches 2.
    if config.reward.name == "format" and config.synthesis.enabled:
        yield Problem(
            "reward.name",
            "format",
            "it lies in [0, 2], so no task can be said to be at the capability boundary",
            "set synthesis.enabled=false: stage 1 of the paper trains without expansion",
        )
    yield from choice("reward.empty_turn", config.reward.empty_turn, ("envtuning", "official"))
    yield from at_least("simulation.step_limit", config.simulation.step_limit, 1)
    yield from choice("simulation.protocol", config.simulation.protocol, ("hermes", "envtuning", "llama"))
    yield from choice("simulation.hints", config.simulation.hints, ("none", "envtuning"))
    yield from choice("simulation.types", config.simulation.types, ("schema", "official"))
    yield from choice("simulation.at_limit", config.simulation.at_limit, ("end_turn", "force_quit"))
    yield from at_least("simulation.max_result_chars", config.simulation.max_result_chars, 100)
    yield from choice("simulation.mcp", config.simulation.mcp, ("replay", "record"))


RULES: tuple[Callable[[Config], Iterator[Problem]], ...] = (
    _seeds,
    _tasks,
    _model,
    _training,
    _budget,
    _objective,
    _credit,
    _critic,
    _batches,
    _reward,
)
