"""Tasks and messages over the fake MCP server, for the tests of MCP worlds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rods.config import RewardConfig, SimulationConfig
from rods.reward import progress
from rods.simulation.mcp_world import McpSimulator, build
from rods.simulation.session import Session
from rods.simulation.simulator import Opening
from rods.tasks.model import Call, Task, TaskType, Turn

SERVER = Path(__file__).with_name("mcp_fake_server.py").read_text(encoding="utf-8")
SCENARIO: dict[str, Any] = {
    "command": ["python", "server.py"],
    "files": {"server.py": SERVER},
    "setup": [{"name": "add", "arguments": {"amount": 10}}],
    "probes": [{"name": "read"}],
    "timeout_s": 2,
}


def call(name: str, **arguments: Any) -> Call:
    return Call(name, arguments)


def settings(folder: Path, mode: str = "replay") -> SimulationConfig:
    return SimulationConfig(mcp=mode, cassettes=str(folder))


def simulator(folder: Path, mode: str = "replay", **changes: Any) -> McpSimulator:
    return build(Opening("mcp:fake", {**SCENARIO, **changes}, simulation=settings(folder, mode)))


def task(*turns: Turn, withheld: tuple[str, ...] = ()) -> Task:
    return Task("t", TaskType.BASE, ("mcp:fake",), {"mcp:fake": SCENARIO}, turns, withheld)


def message(*calls: Call) -> str:
    return "\n".join(f"<tool_call>\n{json.dumps(item.to_json())}\n</tool_call>" for item in calls)


def play(subject: Task, simulation: SimulationConfig, turns: list[list[Call]]) -> tuple[list[str], float]:
    """The observations and the progress reward of an episode with these calls, one message per turn."""
    session = Session(subject, simulation, RewardConfig())
    seen: list[str] = []
    for calls in turns:
        if calls:
            seen += session.advance(message(*calls)).observations
        session.advance("Done.")
    assert session.finished
    return seen, progress(session.outcome())
