"""What a launched evaluation (`+experiment=evaluate_only`) is asked to score, out of what was typed at its launch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import yaml

from launchers.paths import KEYS
from rods.config import Config, ConfigError, EvaluationConfig
from rods.curriculum.events import EvaluationMode
from rods.evaluation import folders, policies, suites
from rods.evaluation.settings import check_keys, settings

# Where and how the run is launched; every other setting is the policy's and the suite's.
_OF_THE_LAUNCH = ("experiment", "evaluation", "cluster", "launch", "tracking", "exchange")
_MODES = {0.0: EvaluationMode.GREEDY, 1.0: EvaluationMode.SAMPLED}


def own(config: Config, typed: Sequence[str]) -> tuple[str, ...]:
    """Of what was typed at the launch, what is about the evaluation and not about where it runs.

    Args:
        config: the launch's; its paths, which are absolute, take the place of those typed.
    """
    kept = (text for text in typed if _key(text).partition(".")[0] not in _OF_THE_LAUNCH)
    return tuple(_anchored(config, text) for text in kept)


def folder_of(run: Path, asked: EvaluationConfig) -> Path:
    """Where the launched evaluation in the run directory `run` keeps what it plays."""
    return run / "evaluations" / f"{asked.suite}-{asked.split}"


def mode(config: Config) -> EvaluationMode:
    """How messages are decoded.

    Raises:
        ConfigError: in a way that no other run is evaluated in.
    """
    temperature = config.rollout.temperature
    if temperature not in _MODES or config.rollout.top_p != 1.0:
        raise ConfigError(
            f"rollout.temperature = {temperature}, rollout.top_p = {config.rollout.top_p}: a run that evaluates is "
            "laid beside others, which decode greedily (0.0) or at temperature 1.0 with top_p 1.0; set one of them, or "
            "use `rods evaluate`"
        )
    return _MODES[temperature]


def check_typed(config: Config, typed: Sequence[str]) -> None:
    """Refuse what can be refused anywhere: a setting that the policy or the suite decides.

    Raises:
        ConfigError: names it.
    """
    check_keys(own(config, typed), suites.get(config.evaluation.suite))


def check_here(config: Config, typed: Sequence[str]) -> None:
    """Refuse what the evaluation would refuse as it starts, where it is to run on this machine.

    A run that is resumed goes on with the checkpoint that it began with.

    Raises:
        RodsError: no such policy, tasks or setting; the message is complete.
    """
    asked, resumed = config.evaluation, config.launch.resume
    begun = folders.began_with(folder_of(Path(resumed), asked)) if resumed else None
    found = policies.config_of(begun or policies.find(asked.policy))
    evaluated = settings(found, asked.policy, suites.get(asked.suite), own(config, typed))
    mode(evaluated)
    suites.tasks_of(evaluated, asked.split)


def _key(text: str) -> str:
    return text.lstrip("+").partition("=")[0]


def _anchored(config: Config, text: str) -> str:
    """A typed path as the configuration has it, in YAML's quotes: JSON's split what is beyond 16 bits."""
    if _key(text) not in KEYS:
        return text
    section, name = _key(text).split(".")
    quoted = yaml.safe_dump(getattr(getattr(config, section), name), default_style='"', width=math.inf)
    return f"{_key(text)}={quoted.strip()}"
