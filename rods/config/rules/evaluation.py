"""Rules for evaluations, in the course of a run and by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rods.config.checks import Problem, at_least, choice

if TYPE_CHECKING:
    from rods.config import Config

MODES = ("sampled", "greedy")
_EVERY = ("evaluate_every_steps", "evaluate_every_epochs")


def _in_training(config: Config) -> Iterator[Problem]:
    training = config.training
    for name in _EVERY:
        yield from at_least(f"training.{name}", getattr(training, name), 0)
    modes = training.evaluation_modes
    if not modes or len(set(modes)) < len(modes) or not set(modes) <= set(MODES):
        yield Problem(
            "training.evaluation_modes",
            modes,
            "an evaluation decodes in one mode at least, and in each once",
            f"set [{', '.join(MODES)}] or one of them",
        )
    yield from choice("training.keep_best", training.keep_best, ("", *training.evaluation_modes))
    asked = [name for name in (*_EVERY, "keep_best") if getattr(training, name)]
    if asked and config.tasks.heldout_count == 0 and config.tasks.validation_count == 0:
        yield Problem(
            f"training.{asked[0]}",
            getattr(training, asked[0]),
            "there is nothing to evaluate on (tasks.validation_count and tasks.heldout_count are 0)",
            "set one of them to more, or leave evaluations out",
        )


def _alone(config: Config) -> Iterator[Problem]:
    asked = config.evaluation
    yield from choice("evaluation.suite", asked.suite, ("bfcl_v3", "scripted"))
    yield from choice("evaluation.split", asked.split, ("heldout", "validation", "train"))
    if asked.enabled is not bool(asked.policy):
        yield Problem(
            "evaluation.policy",
            asked.policy,
            "a policy is scored by +experiment=evaluate_only, and by nothing else",
            "give both, or neither",
        )
    if asked.enabled and config.synthesis.enabled:
        yield Problem(
            "synthesis.enabled", True, "nothing is trained where a policy is scored", "set it to false"
        )


RULES: tuple[Callable[[Config], Iterator[Problem]], ...] = (_in_training, _alone)
