"""The schema of a run: every setting, its type and its meaning, and the rules that tie settings together.

Light on purpose: it imports neither torch nor anything else heavy, since `launch.py --help`, planning and the
status commands need it. YAML under `conf/` holds the values; this file holds no experiment, only neutral
defaults. Field comments give the meaning; the paper's values stand in `conf/experiment/rods_qwen4b.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import cache
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rods.config.checks import Problem
from rods.config.curriculum import BoundaryConfig, BufferConfig
from rods.config.evaluation import EvaluationConfig
from rods.config.learning import (
    CriticConfig,
    ModelConfig,
    RewardConfig,
    SimulationConfig,
    TasksConfig,
    TrainingConfig,
)
from rods.config.rollout import EngineServerConfig, RolloutConfig
from rods.config.rules import problems
from rods.config.running import (
    ClusterConfig,
    ContainerConfig,
    ExchangeConfig,
    JobConfig,
    LaunchConfig,
    LaunchMode,
    TrackingConfig,
)
from rods.config.stages import StageConfig
from rods.config.synthesis import BackboneConfig, ServerConfig, SynthesisConfig
from rods.errors import RodsError

__all__ = [
    "BackboneConfig",
    "BoundaryConfig",
    "BufferConfig",
    "ClusterConfig",
    "Config",
    "ConfigError",
    "ContainerConfig",
    "CriticConfig",
    "EngineServerConfig",
    "EvaluationConfig",
    "ExchangeConfig",
    "JobConfig",
    "LaunchConfig",
    "LaunchMode",
    "ModelConfig",
    "RewardConfig",
    "RolloutConfig",
    "ServerConfig",
    "SimulationConfig",
    "StageConfig",
    "SynthesisConfig",
    "TasksConfig",
    "TrackingConfig",
    "TrainingConfig",
    "from_mapping",
    "validate",
]


class ConfigError(RodsError):
    """A configuration that cannot run; the message names each key, its value and the fix."""


@dataclass(frozen=True)
class Config:
    """One run, whole."""

    experiment: str = "unnamed"  # the first part of the run directory's name
    ablation: str = ""  # what was taken away from the experiment; the second part of that name
    seed: int = 0  # fixes task order and sampling seeds
    tasks: TasksConfig = field(default_factory=TasksConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    synthesis: SynthesisConfig = field(default_factory=SynthesisConfig)
    boundary: BoundaryConfig = field(default_factory=BoundaryConfig)
    buffer: BufferConfig = field(default_factory=BufferConfig)
    exchange: ExchangeConfig = field(default_factory=ExchangeConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    simulation: SimulationConfig = field(default_factory=SimulationConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    launch: LaunchConfig = field(default_factory=LaunchConfig)

    @property
    def name(self) -> str:
        """What a person calls this run: the experiment, and its ablation where it has one."""
        return "-".join(part for part in (self.experiment, self.ablation) if part)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-able data; `from_mapping` is its inverse."""
        return asdict(self)


def from_mapping(data: DictConfig | dict[str, Any]) -> Config:
    """Type-check a composed configuration against the schema. Cross-field rules: `validate`.

    Raises:
        ConfigError: an unknown key, a missing section or a value of the wrong type; names the key.
    """
    try:
        merged = OmegaConf.merge(_schema(), data)
        config = OmegaConf.to_object(merged)
    except OmegaConfBaseException as error:
        key = getattr(error, "full_key", None) or "?"
        first_line = str(error).splitlines()[0]
        raise ConfigError(f"config key {key}: {first_line}. See rods/config/ for the schema.") from error
    assert isinstance(config, Config)
    _refuse_other_shape(config, Config(), "")
    _refuse_nested(config, "")
    return config


def _refuse_other_shape(value: Any, default: Any, key: str) -> None:
    """A section, list or mapping that an interpolation has put a single value for; OmegaConf does not look."""
    for shape, name in ((list | tuple, "a list"), (dict, "a mapping")):
        if isinstance(default, shape) and not isinstance(value, shape):
            raise ConfigError(f"config key {key}: expected {name}, found {value!r}")
    if not is_dataclass(default):
        return
    if not is_dataclass(value):
        raise ConfigError(
            f"config key {key}: expected a section with {', '.join(vars(default))}, found {value!r}"
        )
    for name, inner in vars(default).items():
        _refuse_other_shape(getattr(value, name), inner, f"{key}.{name}".lstrip("."))


def _refuse_nested(node: Any, key: str) -> None:
    """A list or a mapping of the schema holds single values or sections; OmegaConf does not look."""
    collection = isinstance(node, dict | list | tuple)
    for name, value in _children(node):
        path = f"{key}.{name}".lstrip(".")
        if collection and isinstance(value, dict | list | tuple):
            raise ConfigError(
                f"config key {path}: expected a single value, found {value!r}; a text with brackets or braces needs "
                f"quotes of its own: '{path}=\"[a|b]\"'"
            )
        _refuse_nested(value, path)


def _children(node: Any) -> Iterable[tuple[object, Any]]:
    if isinstance(node, dict):
        return node.items()
    if isinstance(node, list | tuple):
        return enumerate(node)
    return vars(node).items() if is_dataclass(node) else ()


@cache  # merging copies it; a sweep merges many
def _schema() -> DictConfig:
    schema = OmegaConf.structured(Config)
    assert isinstance(schema, DictConfig)
    _make_writable(schema)
    return schema


def _make_writable(node: DictConfig) -> None:
    """Frozen dataclasses become read-only nodes, each on its own; merging values into them needs them writable."""
    OmegaConf.set_readonly(node, False)
    for key in node:
        child = node._get_node(key)
        if isinstance(child, DictConfig) and not child._is_missing():
            _make_writable(child)


def validate(config: Config) -> None:
    """Refuse a configuration that contradicts itself or this machine.

    Raises:
        ConfigError: all problems at once, one line each: key = value, what is wrong, the fix.
    """
    found: list[Problem] = problems(config)
    if found:
        lines = "\n".join(f"  {problem}" for problem in found)
        raise ConfigError(f"this configuration cannot run ({len(found)} problem(s)):\n{lines}")
