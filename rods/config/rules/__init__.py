"""The rules between settings: each finds contradictions and says how to mend them. As light as the schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rods.config.checks import Problem, finite
from rods.config.rules import cluster, curriculum, evaluation, learning, rollout, running, stages, synthesis

if TYPE_CHECKING:
    from rods.config import Config


def _finite(config: Config) -> Iterator[Problem]:
    yield from finite("", config.to_dict())


RULES = (
    _finite,
    *learning.RULES,
    *evaluation.RULES,
    *stages.RULES,
    *rollout.RULES,
    *synthesis.RULES,
    *curriculum.RULES,
    *running.RULES,
    *cluster.RULES,
)


def problems(config: Config) -> list[Problem]:
    """Every contradiction in `config`, section by section."""
    return [problem for rule in RULES for problem in rule(config)]
