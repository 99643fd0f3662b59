"""Rules for how episodes are generated, and where.

Whether an engine is installed is asked of importlib's finder, so that nothing heavy is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rods.config.checks import Problem, at_least, choice, fraction, positive

if TYPE_CHECKING:
    from rods.config import Config

ENGINE_PACKAGES = {"vllm": "vllm", "hf": "transformers"}


def _rollout(config: Config) -> Iterator[Problem]:
    rollout = config.rollout
    yield from choice("rollout.engine", rollout.engine, ("auto", "hf", "vllm"))
    package = ENGINE_PACKAGES.get(rollout.engine)
    # A Slurm job's compute nodes, not this login node, must have the engine.
    if package and config.cluster.kind == "local" and find_spec(package) is None:
        yield Problem(
            "rollout.engine",
            rollout.engine,
            f"the package {package} is not installed",
            "run `pip install -e '.[cpu]'` (or '.[gpu]'), or set rollout.engine=hf",
        )
    if config.evaluation.enabled:
        yield from at_least("rollout.temperature", rollout.temperature, 0)  # greedy
    else:
        yield from positive("rollout.temperature", rollout.temperature)
    yield from fraction("rollout.top_p", rollout.top_p)
    yield from fraction("rollout.gpu_memory_fraction", rollout.gpu_memory_fraction)
    yield from at_least("rollout.max_message_tokens", rollout.max_message_tokens, 1)
    yield from at_least("rollout.max_concurrent", rollout.max_concurrent, 1)
    yield from at_least("rollout.cpu_cache_gib", rollout.cpu_cache_gib, 1)


def _placement(config: Config) -> Iterator[Problem]:
    rollout = config.rollout
    yield from choice("rollout.placement", rollout.placement, ("colocated", "served"))
    yield from choice("rollout.transfer", rollout.transfer, ("auto", "nccl", "disk"))
    yield from positive("rollout.answer_timeout_s", rollout.answer_timeout_s)
    yield from positive("rollout.server.ready_timeout_s", rollout.server.ready_timeout_s)
    if rollout.placement == "served" and rollout.engine == "hf":
        yield Problem("rollout.engine", "hf", "only vllm has a server", "set rollout.engine=vllm")
    if rollout.servers and rollout.placement != "served":
        yield Problem(
            "rollout.servers", rollout.servers, "nobody would ask them", "set rollout.placement=served or []"
        )
    if rollout.servers and rollout.transfer == "disk" and not rollout.transfer_dir:
        yield Problem(
            "rollout.transfer_dir",
            "",
            "servers that others run cannot be known to see this machine's memory",
            "set a folder that they see too",
        )
    for url in rollout.servers:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/"):
            yield Problem("rollout.servers", rollout.servers, f"{url!r} is no server", "set http://HOST:PORT")


def _one_step_off(config: Config) -> Iterator[Problem]:
    if config.rollout.one_step_off and config.training.importance_cap is None:
        yield Problem(
            "training.importance_cap",
            None,
            "rollout.one_step_off trains on rollouts of older weights, which nothing would correct",
            "set 2.0 or rollout.one_step_off=false",
        )


RULES: tuple[Callable[[Config], Iterator[Problem]], ...] = (_rollout, _placement, _one_step_off)
