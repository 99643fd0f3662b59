"""Time of a training step and GPU-hours of a run, by a roofline: whichever of arithmetic and memory is slower.

With P parameters, E episodes a step of T tokens each, of which S were sampled, on N GPUs with one engine each:

- decoding: S steps, each reads the weights once and every running episode's cache, or computes 2·P a running
  episode, whichever takes longer; what the cache cannot hold at once runs in waves.
- prefill: 2·P for each of the T − S tokens that others wrote (the prefix cache saves the rest).
- update: 6·P a token forward and backward, 2·P more with checkpointing, 2·P for the reference; and as many times
  layers·query·T for attention, which sees half the episode on average.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from rods.config import Config
from rods.config.stages import planned_epochs
from rods.estimate.hardware import DECODING_SHARE, PREFILL_SHARE, TRAINING_SHARE, Device
from rods.estimate.memory import cache_tokens
from rods.estimate.shape import Shape


@dataclass(frozen=True)
class Episodes:
    """Mean lengths of an episode, in tokens: an assumption of whoever asks.

    Attributes:
        tokens: prompt, results and messages.
        sampled: messages of the policy.
    """

    tokens: int
    sampled: int


@dataclass(frozen=True)
class Duration:
    """Seconds of one training step, and what follows for the run.

    Attributes:
        waves: how often the cache is filled to run all episodes.
        steps: training steps if the pool kept its first size.
        hours: wall time, without start, checkpoints and evaluation.
    """

    decoding: float
    prefill: float
    update: float
    waves: int
    steps: int
    hours: float


def estimate(
    shape: Shape, config: Config, device: Device, ranks: int, episodes: Episodes, active_tasks: int
) -> Duration:
    """The training job's time on `ranks` GPUs.

    Args:
        active_tasks: tasks of an epoch.
    """
    training = config.training
    count = training.tasks_per_step * training.group_size
    per_rank = ceil(count / ranks)
    fits = cache_tokens(shape, config, device.memory) / episodes.tokens
    at_once = max(1, min(per_rank, int(fits), config.rollout.max_concurrent))
    waves = ceil(per_rank / at_once)
    decoding = waves * episodes.sampled * _decode_step(shape, config, device, at_once, episodes)
    prefill = 2 * shape.parameters * (episodes.tokens - episodes.sampled) * per_rank
    update = per_rank * episodes.tokens * _update_flops(shape, config, episodes)
    steps = planned_epochs(config) * ceil(active_tasks / training.tasks_per_step)
    seconds = (
        decoding,
        prefill / (device.flops * PREFILL_SHARE),
        update / (device.flops * TRAINING_SHARE),
    )
    return Duration(*seconds, waves, steps, steps * sum(seconds) / 3600)


def _decode_step(shape: Shape, config: Config, device: Device, running: int, episodes: Episodes) -> float:
    width = 4 if config.model.dtype == "float32" else 2
    cache = running * shape.kv_per_token * episodes.tokens / 2  # half of it on average
    reading = width * (shape.parameters + cache) / (device.bandwidth * DECODING_SHARE)
    return max(reading, 2 * shape.parameters * running / (device.flops * PREFILL_SHARE))


def _update_flops(shape: Shape, config: Config, episodes: Episodes) -> float:
    """Operations a token, with gradient checkpointing as the learner does on GPUs."""
    passes = 8 + (2 if config.training.kl_coefficient else 0)
    attention = passes * shape.layers * shape.query_width * episodes.tokens
    return passes * shape.parameters + attention
