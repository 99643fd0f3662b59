"""Rules for the stages of a run: each by itself, and what may follow on what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rods.config.checks import Problem, at_least, at_most, choice
from rods.config.rules.curriculum import TASK_TYPES
from rods.config.stages import StageConfig, within

if TYPE_CHECKING:
    from rods.config import Config

_HIGHEST = {"format": 2.0}  # rewards are at most 1, but for this one


def _stage_settings(config: Config) -> Iterator[Problem]:
    for index, stage in enumerate(config.training.stages):
        key = f"training.stages[{index}]"
        yield from _choices(key, stage)
        yield from _end(key, stage, within(config, stage).reward.name)
        yield from _length(key, stage.max_episode_tokens, config)
        yield from _credit(key, stage, config)


def _stage_names(config: Config) -> Iterator[Problem]:
    names = [stage.name for stage in config.training.stages]
    if "" in names or len(set(names)) < len(names):
        yield Problem(
            "training.stages", names, "the journal tells stages apart by name", "give each a name of its own"
        )


def _stage_rewards(config: Config) -> Iterator[Problem]:
    """The zones of the curriculum are defined for rewards in [0, 1]; the format reward reaches 2."""
    expanded = False
    for index, stage in enumerate(config.training.stages):
        settings = within(config, stage)
        expanded |= settings.synthesis.enabled
        if settings.reward.name == "format" and expanded:
            yield Problem(
                f"training.stages[{index}].reward",
                "format",
                "it lies in [0, 2]: neither can boundary tasks be told by it, nor variants be retired",
                "set synthesis: false in this stage and in those before it",
            )


def _choices(key: str, stage: StageConfig) -> Iterator[Problem]:
    for kind in stage.task_types:
        yield from choice(f"{key}.task_types", kind, TASK_TYPES)
    yield from choice(f"{key}.reward", stage.reward, ("", "progress", "binary", "format"))
    yield from choice(f"{key}.hints", stage.hints, ("", "none", "envtuning"))


def _end(key: str, stage: StageConfig, reward: str) -> Iterator[Problem]:
    yield from at_least(f"{key}.epochs", stage.epochs, 1)
    yield from at_least(f"{key}.patience", stage.patience, 0)
    yield from at_least(f"{key}.target_steps", stage.target_steps, 1)
    highest = _HIGHEST.get(reward, 1.0)
    if stage.target_reward is not None and not 0 < stage.target_reward <= highest:
        yield Problem(
            f"{key}.target_reward",
            stage.target_reward,
            f"mean rewards of {reward} lie in [0, {highest:g}]",
            "set a value in that range, or null",
        )


def _episode_length(config: Config) -> Iterator[Problem]:
    yield from _length("rollout", config.rollout.max_episode_tokens, config)


def _length(key: str, limit: int | None, config: Config) -> Iterator[Problem]:
    yield from at_least(f"{key}.max_episode_tokens", limit, config.rollout.max_message_tokens + 1)
    yield from at_most(
        f"{key}.max_episode_tokens",
        limit,
        config.model.max_length,
        f"the engine holds model.max_length = {config.model.max_length}",
    )


def _credit(key: str, stage: StageConfig, config: Config) -> Iterator[Problem]:
    if config.training.credit == "turn" and stage.reward not in ("", "progress"):
        yield Problem(
            f"{key}.reward",
            stage.reward,
            "no sum over user turns, as training.credit = turn needs",
            "set progress, or training.credit=episode",
        )


RULES: tuple[Callable[[Config], Iterator[Problem]], ...] = (
    _episode_length,
    _stage_settings,
    _stage_names,
    _stage_rewards,
)
