"""Rules for the second job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rods.config.checks import Problem, at_least, choice, fraction
from rods.config.rules.backbones import backbones

if TYPE_CHECKING:
    from rods.config import Config


def _synthesis(config: Config) -> Iterator[Problem]:
    synthesis = config.synthesis
    yield from choice("synthesis.backend", synthesis.backend, ("scripted", "openai"))
    yield from choice("synthesis.retry", synthesis.retry, ("guided", "blind"))
    for name in ("workers", "max_attempts", "variants_per_seed", "max_string", "max_list"):
        yield from at_least(f"synthesis.{name}", getattr(synthesis, name), 1)
    yield from at_least("synthesis.simulation_processes", synthesis.simulation_processes, 0)
    yield from at_least("synthesis.temperature", synthesis.temperature, 0)
    yield from fraction("synthesis.top_p", synthesis.top_p)
    yield from at_least("synthesis.min_long_observation", synthesis.min_long_observation, 0)
    if not 0 < synthesis.max_similarity <= 1:
        yield Problem(
            "synthesis.max_similarity",
            synthesis.max_similarity,
            "similarities lie in [0, 1], and at 0 every variant is a duplicate",
            "set 0.9",
        )
    if not 0 <= synthesis.max_profile_distance <= 1:
        yield Problem(
            "synthesis.max_profile_distance",
            synthesis.max_profile_distance,
            "Φ distances lie in [0, 1]",
            "set 0.25",
        )
    yield from backbones(synthesis)


RULES: tuple[Callable[[Config], Iterator[Problem]], ...] = (_synthesis,)
