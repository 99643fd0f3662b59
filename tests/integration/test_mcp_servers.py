"""Real MCP servers from PyPI as a training world: recorded once, replayed without them, rewarded as ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp_examples import call, message, play

from rods.config import RewardConfig, SimulationConfig
from rods.simulation import mcp_world
from rods.simulation.recording import record
from rods.simulation.session import Session, open_world
from rods.tasks.model import Call, Task, TaskType, Turn

pytestmark = pytest.mark.slow

REPO = {"repo_path": "/world"}
DATES = {f"GIT_{who}_DATE": "2024-09-01T10:30:00+0000" for who in ("AUTHOR", "COMMITTER")}
NAMES = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in {"NAME": "Ada", "EMAIL": "ada@example.org"}.items()
}
GIT: dict[str, Any] = {
    "command": ["python", "-m", "mcp_server_git", "--repository", "."],
    "files": {"notes.txt": "one\n", "todo.txt": "two\n"},
    "prepare": [
        ["git", "init", "-q", "-b", "main"],
        ["git", "add", "notes.txt"],
        ["git", "commit", "-qm", "Start"],
    ],
    "env": {**DATES, **NAMES},
    "probes": [
        {"name": "git_status", "arguments": REPO},
        {"name": "git_log", "arguments": REPO},
        {"name": "git_branch", "arguments": {**REPO, "branch_type": "local"}},
    ],
}
TIME = {"command": ["python", "-m", "mcp_server_time", "--local-timezone", "UTC"]}
TURNS = (
    Turn(
        "Commit todo.txt in /world as 'Add the list'.",
        (call("git_add", **REPO, files=["todo.txt"]), call("git_commit", **REPO, message="Add the list")),
    ),
    Turn(
        "It is noon in Berlin: what time is it in Tokyo? And now?",
        (
            call("convert_time", source_timezone="Europe/Berlin", time="12:00", target_timezone="Asia/Tokyo"),
            call("get_current_time", timezone="Asia/Tokyo"),
        ),
    ),
    Turn(
        "Make a branch fix.",
        (call("git_create_branch", **REPO, branch_name="fix"),),
        restored=("git_create_branch",),
    ),
)
TASK = Task(
    "git-and-time",
    TaskType.MISS_FUNC,
    ("mcp:git", "mcp:time"),
    {"mcp:git": GIT, "mcp:time": TIME},
    TURNS,
    withheld=("git_create_branch",),
)
RIGHT = [list(turn.calls) for turn in TURNS]


@pytest.fixture(scope="module")
def cassettes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording of TASK, made on the two servers."""
    folder = tmp_path_factory.mktemp("cassettes")
    assert record(TASK, folder) == 5
    return folder


@pytest.fixture
def replay(cassettes: Path, monkeypatch: pytest.MonkeyPatch) -> SimulationConfig:
    """Settings under which no server may start."""

    def refuse(spec: object) -> None:
        raise AssertionError("a server was started")

    monkeypatch.setattr(mcp_world, "LiveServer", refuse)
    return SimulationConfig(cassettes=str(cassettes))


def test_the_servers_tools_and_answers_are_those_of_the_real_ones(replay: SimulationConfig) -> None:
    session = Session(TASK, replay, RewardConfig())
    tools = {tool["function"]["name"]: tool["function"] for tool in session.tools}
    assert {"git_status", "git_add", "git_commit", "convert_time", "get_current_time"} <= set(tools)
    assert "git_create_branch" not in tools
    assert tools["git_add"]["parameters"]["properties"]["files"]["items"] == {"type": "string"}
    staged, committed = session.advance(message(*TURNS[0].calls)).observations
    assert staged == "Files staged successfully"
    assert committed.startswith("Changes committed successfully with hash ")
    session.advance("Done.")
    (converted, _) = session.advance(message(*TURNS[1].calls)).observations
    assert '"timezone": "Asia/Tokyo"' in converted
    advanced = session.advance("Done.")
    assert [tool["function"]["name"] for tool in advanced.restored] == ["git_create_branch"]


def test_replay_equals_record(cassettes: Path, replay: SimulationConfig) -> None:
    again = SimulationConfig(mcp="record", cassettes=str(cassettes))
    assert play(TASK, replay, RIGHT) == play(TASK, again, RIGHT)
    assert play(TASK, replay, RIGHT)[1] == 1.0


@pytest.mark.parametrize(
    ("turn", "calls", "reward"),
    [
        (0, [TURNS[0].calls[0], call("git_commit", **REPO, message="Added the list")], 0.0),
        (0, [TURNS[0].calls[0]], 0.0),
        (1, [call("get_current_time", timezone="Asia/Seoul")], 2 / 3),
        (1, [], 2 / 3),
        (2, [call("git_create_branch", **REPO, branch_name="fixes")], 2 / 3),
        (2, [call("git_create_branch", **REPO)], 2 / 3),
        (2, [call("git_create_branch", **REPO, branch="fix"), TURNS[2].calls[0]], 1.0),
    ],
)
def test_a_wrong_call_fails_its_turn(
    replay: SimulationConfig, turn: int, calls: list[Call], reward: float
) -> None:
    """A repository that is not as it should be fails the later turns too: each is judged by the whole state."""
    turns = [*RIGHT]
    turns[turn] = calls
    assert play(TASK, replay, turns)[1] == pytest.approx(reward)


def test_the_state_is_what_the_probes_read(replay: SimulationConfig) -> None:
    world = open_world(TASK, simulation=replay)
    before = world.state()["mcp:git"]
    assert "todo.txt" in before['git_status({"repo_path": "/world"})']
    for item in TURNS[0].calls:
        assert not world.execute(item).failed
    after = world.state()["mcp:git"]
    assert "nothing to commit" in after['git_status({"repo_path": "/world"})']
    assert "Message: Add the list" in after['git_log({"repo_path": "/world"})']
    world.execute(call("git_reset", **REPO))
    assert world.state()["mcp:git"] == {"unknown": "outside the recording"}
