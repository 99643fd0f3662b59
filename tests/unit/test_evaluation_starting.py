"""What is said while an engine starts."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from rods.config import RolloutConfig
from rods.evaluation import starting


def reminded(logs: Path) -> list[str]:
    """What is said of servers that start until one reminder was."""
    said: list[str] = []
    one = threading.Event()

    def say(sentence: str) -> None:
        said.append(sentence)
        if sentence.startswith("still"):
            one.set()

    with starting.told(RolloutConfig(placement="served"), logs, say, every_s=0.01):
        assert one.wait(20)
    return said


def test_a_long_start_is_told_with_the_last_line_of_the_newest_log(tmp_path: Path) -> None:
    (tmp_path / "engine-0.log").write_text("loading shard 1\nloading shard 2\n\n")
    said = reminded(tmp_path)
    assert said[0] == f"starting 1 vLLM server(s), which takes minutes; log: {tmp_path}"
    assert said[1].startswith("still starting after ")
    assert said[1].endswith("; engine-0.log: loading shard 2")
    assert said[-1].startswith("ready after ")


def test_of_a_progress_bar_its_last_state_is_told_without_colours(tmp_path: Path) -> None:
    bar = b"up\n\x1b[0;36m(EngineCore pid=7)\x1b[0;0m \rLoading:   0%\r\x1b[32mLoading: \xff 50%\x1b[0m\r"
    (tmp_path / "engine-0.log").write_bytes(bar)
    said = reminded(tmp_path)
    assert said[1].endswith("; engine-0.log: Loading: � 50%")


def test_of_an_engine_that_does_not_start_nobody_says_that_it_is_ready(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(RuntimeError), starting.told(RolloutConfig(engine="hf"), tmp_path, said.append):
        raise RuntimeError
    assert said == ["starting the engine hf"]


def test_servers_of_others_are_named(tmp_path: Path) -> None:
    said: list[str] = []
    rollout = RolloutConfig(placement="served", servers=("http://a:1", "http://b:2"))
    with starting.told(rollout, tmp_path, said.append):
        pass
    assert said[0] == "starting the engine on the servers http://a:1, http://b:2"
