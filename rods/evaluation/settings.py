"""The configuration of an evaluation: the policy's own settings under the suite's rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rods.config import Config, ConfigError, SynthesisConfig, TrainingConfig, from_mapping, validate
from rods.config.compose import compose
from rods.evaluation.suites import Suite, under_rules

SETTABLE = ("model.", "rollout.", "tasks.", "simulation.protocol", "simulation.cassettes", "seed")


def settings(run: Config | None, path: str, suite: Suite, overrides: Sequence[str]) -> Config:
    """What the evaluation runs with: greedy, one episode a task, unless `overrides` say otherwise.

    Args:
        run: of the run that the policy comes from; None for a model by itself.
        path: of a model by itself, as in `model.path`.
        overrides: KEY=VALUE, keys that begin as one of `SETTABLE`; the rest is the suite's.

    Raises:
        ConfigError: another key, an unknown one, or a contradiction.
    """
    check_keys(overrides, suite)
    ruled = under_rules(_own(run or _alone(path)), suite)
    try:
        changes = OmegaConf.from_dotlist(list(overrides))
        config = from_mapping(OmegaConf.to_container(OmegaConf.merge(ruled.to_dict(), changes)))  # type: ignore[arg-type]
    except OmegaConfBaseException as error:
        raise ConfigError(f"{' '.join(overrides)}: {str(error).splitlines()[0]}") from error
    validate(_as_a_run(config))
    return config


def check_keys(overrides: Sequence[str], suite: Suite) -> None:
    """Refuse `overrides` of anything else than `SETTABLE`.

    Raises:
        ConfigError: names it.
    """
    for override in overrides:
        if not override.startswith(SETTABLE) or "=" not in override:
            raise ConfigError(
                f"{override}: expected KEY=VALUE with a key of {', '.join(SETTABLE)}; "
                f"everything else is set by the suite {suite.name}"
            )


def content(config: Config) -> dict[str, Any]:
    """What the score depends on: the policy's texts, the sampling, the rules; not where or how fast it runs."""
    sampling = ("temperature", "top_p", "max_message_tokens", "max_episode_tokens")
    return {
        "seed": config.seed,
        "model": {key: value for key, value in asdict(config.model).items() if key != "path"},
        "rollout": {key: getattr(config.rollout, key) for key in sampling},
        "simulation": {key: value for key, value in asdict(config.simulation).items() if key != "cassettes"},
        "reward": asdict(config.reward),
    }


def _as_a_run(config: Config) -> Config:
    """What the rules are asked about: a run must not sample greedily, and must train on whole episodes."""
    rollout = replace(config.rollout, temperature=config.rollout.temperature or 1.0)
    return replace(
        config, rollout=rollout, training=TrainingConfig(micro_batch_tokens=config.model.max_length)
    )


def _own(config: Config) -> Config:
    """What of a run's settings an evaluation has a use for."""
    rollout = replace(config.rollout, temperature=0.0, top_p=1.0, one_step_off=False, max_episode_tokens=None)
    return Config(
        experiment="evaluation",
        seed=config.seed,
        tasks=config.tasks,
        model=config.model,
        rollout=rollout,
        simulation=config.simulation,
        synthesis=SynthesisConfig(enabled=False),
    )


def _alone(path: str) -> Config:
    if path.startswith("shipped/"):
        return compose(["model=tiny", f"model.path={path}"])
    config = compose(["model=qwen4b", "training=paper", "rollout=paper", "rollout.engine=auto"])
    return replace(config, model=replace(config.model, path=path))
