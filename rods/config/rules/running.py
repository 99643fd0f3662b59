"""Rules for where and how a run runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rods.config.checks import Problem, at_least, choice, positive

if TYPE_CHECKING:
    from rods.config import Config


def _exchange(config: Config) -> Iterator[Problem]:
    exchange = config.exchange
    yield from choice("exchange.fsync", exchange.fsync, ("always", "step", "never"))
    yield from positive("exchange.lease_s", exchange.lease_s)
    for name in ("max_deliveries", "seed_batch", "max_ready_seeds"):
        yield from at_least(f"exchange.{name}", getattr(exchange, name), 1)
    if not re.fullmatch(r"[0-7]?[7][0-7]{2}", exchange.mode):
        yield Problem(
            "exchange.mode",
            exchange.mode,
            "the owner must be able to read, write and enter the run's folders",
            "set octal permissions such as 0750, or 2770 to share with exchange.group",
        )


def _tracking(config: Config) -> Iterator[Problem]:
    yield from choice("tracking.wandb", config.tracking.wandb, ("auto", "online", "offline", "disabled"))
    yield from at_least("tracking.rollouts_per_group", config.tracking.rollouts_per_group, 0)
    if not config.launch.runs_dir.strip():
        yield Problem(
            "launch.runs_dir", config.launch.runs_dir, "names no folder", "set a folder such as runs"
        )
    yield from positive("launch.heartbeat_timeout_s", config.launch.heartbeat_timeout_s)
    yield from at_least("launch.stop_deadline_s", config.launch.stop_deadline_s, 0)
    yield from at_least("launch.watchdog_s", config.launch.watchdog_s, 0)
    if config.cluster.kind == "slurm" and config.launch.stop_deadline_s >= config.cluster.signal_seconds:
        yield Problem(
            "launch.stop_deadline_s",
            config.launch.stop_deadline_s,
            f"the signal comes cluster.signal_seconds = {config.cluster.signal_seconds} before the end: nothing is "
            "left for the checkpoint",
            "set it to less, or cluster.signal_seconds to more",
        )
    yield from at_least("launch.max_stalled_attempts", config.launch.max_stalled_attempts, 1)
    yield from at_least("launch.max_parallel", config.launch.max_parallel, 0)


RULES: tuple[Callable[[Config], Iterator[Problem]], ...] = (
    _exchange,
    _tracking,
)
