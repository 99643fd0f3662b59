"""Rules for the capability boundary and the pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rods.config.checks import Problem, at_least, choice, fraction, positive

if TYPE_CHECKING:
    from rods.config import Config

TASK_TYPES = ("base", "miss_func", "miss_param", "long_context")
SELECTIONS = ("boundary", "random", "uniform", "posterior")


def _boundary(config: Config) -> Iterator[Problem]:
    boundary = config.boundary
    yield from choice("boundary.selection", boundary.selection, SELECTIONS)
    yield from at_least("boundary.posterior_rollouts", boundary.posterior_rollouts, 1)
    yield from fraction("boundary.posterior_forgetting", boundary.posterior_forgetting)
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
    yield from at_least("boundary.max_seeds", boundary.max_seeds, 0)
    yield from at_least("boundary.exclusion_steps", boundary.exclusion_steps, 0)
    unknown = sorted(set(boundary.quotas) - set(TASK_TYPES))
    if unknown:
        yield Problem(
            "boundary.quotas",
            dict(boundary.quotas),
            f"unknown task types {unknown}",
            f"use {', '.join(TASK_TYPES)}",
        )
    for name, quota in boundary.quotas.items():
        yield from at_least(f"boundary.quotas.{name}", quota, 0)
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


def _depth_shift(config: Config) -> Iterator[Problem]:
    boundary = config.boundary
    yield from choice("boundary.depth_shift", boundary.depth_shift, ("none", "adaptive"))
    yield from fraction("boundary.dry_below", boundary.dry_below)
    adaptive = boundary.depth_shift == "adaptive"
    if adaptive and boundary.selection in ("random", "uniform"):
        yield Problem(
            "boundary.depth_shift",
            boundary.depth_shift,
            f"boundary.selection={boundary.selection} takes seeds from all zones, so that none runs dry",
            "set boundary.depth_shift=none, or boundary.selection=boundary or posterior",
        )
    if adaptive and not config.synthesis.narrative_planning:
        yield Problem(
            "boundary.depth_shift",
            boundary.depth_shift,
            "without a planner (synthesis.narrative_planning=false) functions are sampled in the seed's own shape",
            "set boundary.depth_shift=none, or synthesis.narrative_planning=true",
        )


def _buffer(config: Config) -> Iterator[Problem]:
    buffer = config.buffer
    yield from at_least("buffer.capacity", buffer.capacity, 0)  # 0: a static pool
    yield from fraction("buffer.injection_fraction", buffer.injection_fraction)
    yield from choice("buffer.injection", buffer.injection, ("epoch", "stream"))
    yield from choice("buffer.sampling", buffer.sampling, ("once", "prioritised"))
    yield from at_least("buffer.review_epochs", buffer.review_epochs, 0)
    yield from at_least("buffer.burn_in", buffer.burn_in, 0)
    yield from at_least("buffer.stale_epochs", buffer.stale_epochs, 1)
    yield from positive("buffer.barrier_timeout_s", buffer.barrier_timeout_s)
    if buffer.drift_low >= buffer.drift_high:
        yield Problem(
            "buffer.drift_low",
            buffer.drift_low,
            f"must lie below buffer.drift_high = {buffer.drift_high}: every variant would be retired at once",
            "set drift_low < drift_high (the paper: 0.20 and 0.95)",
        )


RULES: tuple[Callable[[Config], Iterator[Problem]], ...] = (
    _boundary,
    _depth_shift,
    _buffer,
)
