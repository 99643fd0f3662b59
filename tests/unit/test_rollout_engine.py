"""Which engine a configuration gets."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from rods.config import ModelConfig, RolloutConfig
from rods.registry import UnknownNameError
from rods.rollout import engine as engines


def test_auto_takes_vllm_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert engines.resolve_name("auto") == ("hf" if find_spec("vllm") is None else "vllm")
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    assert engines.resolve_name("auto") == "hf"
    assert engines.resolve_name("vllm") == "vllm"


def test_an_unknown_engine_is_refused_by_name(policy_dir: Path) -> None:
    with pytest.raises(UnknownNameError, match="'sglang'; choose one of: hf, served, vllm"):
        engines.build(policy_dir, ModelConfig(), RolloutConfig(engine="sglang"), 0)


def test_build_loads_the_named_engine(policy_dir: Path) -> None:
    engine = engines.build(policy_dir, ModelConfig(max_length=77), RolloutConfig(engine="hf"), 0)
    assert (engine.name, engine.max_length, engine.version) == ("hf", 77, 0)


def test_served_placement_goes_to_servers_whatever_engine_is_named(
    monkeypatch: pytest.MonkeyPatch, policy_dir: Path
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(engines.ENGINES, "get", lambda name: lambda *_: asked.append(name))
    engines.build(policy_dir, ModelConfig(), RolloutConfig(engine="auto", placement="served"), 0)
    engines.build(policy_dir, ModelConfig(), RolloutConfig(engine="hf"), 0)
    assert asked == ["served", "hf"]
