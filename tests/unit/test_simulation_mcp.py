"""MCP worlds: what is recorded is replayed exactly, what is not is an error, and nothing is left running."""

from __future__ import annotations

import gc
import json
import os
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp_examples import SCENARIO, call, play, simulator, task
from mcp_examples import settings as simulation

from rods.config import SimulationConfig
from rods.simulation import mcp_world
from rods.simulation.isolation import ScenarioError
from rods.simulation.mcp_cassette import CassetteError
from rods.simulation.mcp_server import McpServerError
from rods.simulation.recording import RecordingError, main, record
from rods.simulation.simulator import CallResult
from rods.simulation.truth import TruthUnknownError
from rods.simulation.world import open_world
from rods.tasks.model import Call, Origin, Turn

TWO = task(
    Turn("Add two, then three.", (call("add", amount=2), call("add", amount=3))),
    Turn("How many?", (call("read"),)),
)
RIGHT = [list(turn.calls) for turn in TWO.turns]


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on a server that starts is an error."""
    monkeypatch.setattr(mcp_world, "LiveServer", _refuse)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recording of the ground truth of TWO."""
    folder = tmp_path_factory.mktemp("cassettes")
    assert record(TWO, folder) == 3
    return folder


def test_replay_earns_what_the_recording_earned_without_a_server(recorded: Path, no_server: None) -> None:
    assert play(TWO, simulation(recorded), RIGHT) == (["12", "15", "15"], 1.0)
    assert record(TWO, recorded) == 3


@pytest.mark.parametrize(
    ("turns", "reward"),
    [
        ([[call("add", amount=3), call("add", amount=2)], [call("read")]], 0.0),
        ([[call("add", amount=2)], [call("read")]], 0.0),
        ([[call("add", amount=2)], [call("add", amount=3), call("read")]], 0.5),
        ([[call("add", amount=2), call("add", amount=3), call("read")], [call("read")]], 1.0),
        ([[call("read"), *RIGHT[0]], [call("read")]], 1.0),
        ([RIGHT[0], [call("add", amount=1), call("read")]], 0.5),
        ([[call("add", amount="2"), *RIGHT[0]], [call("read")]], 1.0),
        ([[call("subtract"), *RIGHT[0]], [call("read")]], 1.0),
        ([[], []], 0.0),
    ],
)
def test_replay_never_earns_more_than_the_real_server(
    recorded: Path, tmp_path: Path, turns: list[list[Call]], reward: float
) -> None:
    _, replayed = play(TWO, simulation(recorded), turns)
    _, real = play(TWO, simulation(tmp_path, "record"), turns)
    assert replayed == reward <= real


def test_a_call_outside_the_cassette_is_an_error_that_says_so(recorded: Path, no_server: None) -> None:
    world = simulator(recorded)
    assert world.call(call("where", path="a")) == CallResult(
        'Error: this call is outside the recording: where({"path": "a"})', True
    )
    assert world.attributes() == {"read({})": "10"}
    wrong = world.call(call("add", amount=4))
    assert wrong.failed
    assert wrong.text == (
        'Error: this call is outside the recording: add({"amount": 4}); '
        "the server's state is not known from here on"
    )
    assert world.attributes() is None
    assert world.call(call("add", amount=2)).failed, "recorded at the start, not here"


CALLS = st.lists(
    st.one_of(
        st.builds(lambda amount: call("add", amount=amount), st.integers(1, 3)),
        st.just(call("read")),
        st.just(call("refuse")),
    ),
    max_size=6,
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=CALLS)
def test_replay_equals_record_and_record_equals_counting(calls: list[Call], tmp_path: Path) -> None:
    real = simulator(tmp_path, "record")
    results = [(real.call(item), real.attributes()) for item in calls]
    real.close()
    replayed = simulator(tmp_path)
    assert [(replayed.call(item), replayed.attributes()) for item in calls] == results
    count = 10
    for item, (result, state) in zip(calls, results, strict=True):
        count += item.arguments.get("amount", 0)
        text = "refused" if item.name == "refuse" else str(count)
        assert (result, state) == (CallResult(text, item.name == "refuse"), {"read({})": str(count)})


def test_a_server_started_late_catches_up_once(tmp_path: Path) -> None:
    for _ in range(2):
        world = simulator(tmp_path, "record")
        world.call(call("add", amount=2))
        world.close()
    assert not world.call(call("where", path="a")).failed, "asks a server that is started now"
    assert not world.call(call("where", path="b")).failed
    assert world.call(call("add", amount=3)) == CallResult("15", False)
    world.close()


def test_without_probes_the_order_of_changes_is_the_state(tmp_path: Path) -> None:
    first, second = (simulator(tmp_path, "record", probes=[]) for _ in range(2))
    for amount in (2, 3):
        first.call(call("add", amount=amount))
        first.call(call("read"))
    for amount in (3, 2):
        second.call(call("add", amount=amount))
    assert first.attributes() != second.attributes()
    second.restore(first.snapshot())
    assert first.attributes() == second.attributes()
    first.close()
    second.close()


def test_the_author_may_say_which_tools_change_nothing(tmp_path: Path) -> None:
    world = simulator(tmp_path, "record", read_only=["read", "refuse"])
    before = world.snapshot()
    world.call(call("refuse"))
    assert world.snapshot() == before
    world.call(call("where", path="x"))
    assert world.snapshot() != before
    world.close()


@pytest.mark.parametrize(
    ("name", "reason"), [("crash", "Connection closed"), ("sleep", "no answer to sleep within 1 s")]
)
def test_a_lost_server_ends_the_world_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, reason: str
) -> None:
    world = simulator(tmp_path, "record", probes=[], timeout_s=1)
    before = world.snapshot()
    lost = world.call(call(name))
    assert lost.failed
    assert reason in lost.text
    assert world.attributes() is None
    with monkeypatch.context() as patch:
        patch.setattr(mcp_world, "LiveServer", _refuse)
        assert reason in world.call(call("add", amount=1)).text
    world.restore(before)
    assert world.call(call("add", amount=1)) == CallResult("11", False)
    world.close()
    assert simulator(tmp_path, probes=[]).call(call(name)).text.startswith("Error: this call is outside")


def test_a_server_that_answers_differently_after_a_restart_is_found_out(tmp_path: Path) -> None:
    world = simulator(tmp_path, "record")
    world.call(call("random"))
    world.restore(world.snapshot())
    answer = world.call(call("add", amount=7))
    assert answer.failed
    assert "random answered" in answer.text
    assert "is recorded: fix in the scenario's env what differs" in answer.text
    assert world.attributes() is None
    world.close()


def test_a_servers_folder_looks_the_same_in_every_world(tmp_path: Path) -> None:
    world = simulator(tmp_path, "record", files={**SCENARIO["files"], "deep/down.txt": "x"})
    answers = [
        world.call(call("where", path=path)).text for path in ("/world/deep/down.txt", "/world", "/worlds")
    ]
    assert answers[0] == "/world /world/deep/down.txt True False"
    assert answers[1] == "/world /world False False"
    assert answers[2] == "/world /worlds False True", "left as it is"
    world.close()


def test_processes_and_folders_end_with_the_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    closed, dropped = simulator(tmp_path / "a", "record"), simulator(tmp_path / "b", "record")
    pids = [int(world.call(call("random")).text) for world in (closed, dropped)]
    assert len(set(pids)) == len(list(scratch.iterdir())) == 2
    closed.close()
    assert not _runs(pids[0])
    assert _runs(pids[1])
    del dropped
    gc.collect()
    assert not _runs(pids[1])
    assert not list(scratch.iterdir())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"command": ["no-such-program-of-rods"]}, "no-such-program-of-rods"),
        ({"command": ["python", "-c", "import sys; sys.exit('no luck')"]}, "no luck"),
        ({"command": ["python", "-c", "print('hello')"]}, "did not start"),
        ({"prepare": [["python", "-c", "import sys; sys.exit('bad ground')"]]}, "status 1: bad ground"),
        ({"prepare": [["no-such-program-of-rods"]]}, "preparing command"),
        ({"setup": [{"name": "refuse"}]}, "setup call refuse failed: refused"),
    ],
)
def test_a_server_that_does_not_start_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], reason: str
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    with pytest.raises(McpServerError, match=reason):
        simulator(tmp_path, "record", **changes)
    gc.collect()
    assert not list(scratch.iterdir())
    assert not list(tmp_path.glob("*.jsonl"))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"command": []}, "command"),
        ({"command": "python"}, "command"),
        ({"shell": True}, "shell: Extra inputs"),
        ({"files": {"/etc/passwd": "x"}}, "relative path"),
        ({"files": {"a/../../b": "x"}}, "relative path"),
        ({"setup": [{"name": "add", "args": {}}]}, "setup.0.args"),
        ({"timeout_s": 0}, "timeout_s"),
    ],
)
def test_a_scenario_is_read_strictly(
    tmp_path: Path, no_server: None, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ScenarioError, match=reason):
        simulator(tmp_path, "record", **changes)


def test_a_probe_must_be_a_tool_of_the_server(recorded: Path, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="no tool peek; it has: read, add"):
        simulator(tmp_path, "record", probes=[{"name": "peek"}])


def test_replay_needs_a_recording_of_this_very_scenario(recorded: Path, no_server: None) -> None:
    with pytest.raises(CassetteError, match=r"nothing is recorded in .*simulation\.mcp=record"):
        simulator(recorded, env={"OTHER": "1"})
    with pytest.raises(CassetteError, match=r"simulation\.cassettes must name"):
        play(TWO, SimulationConfig(), RIGHT)


def test_patience_is_not_part_of_the_scenario(recorded: Path, no_server: None) -> None:
    assert simulator(recorded, timeout_s=99).call(call("add", amount=2)) == CallResult("12", False)


def test_only_tasks_that_their_ground_truth_solves_are_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = task(Turn("Go.", (call("crash"),)))
    with pytest.raises(TruthUnknownError, match=r"task t: the state of mcp:fake .*Connection closed"):
        record(wrong, tmp_path)
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("\n".join(json.dumps(item.to_json()) for item in (wrong, TWO)))
    assert main([str(tasks), str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert printed.out == "t: 3 calls recorded\n"
    assert printed.err.startswith("t: not recorded: task t: the state of mcp:fake is not known")
    assert play(TWO, simulation(tmp_path), RIGHT)[1] == 1.0


@pytest.mark.parametrize(
    ("calls", "reason"),
    [
        ((call("refuse"),), "results: ['refused']"),
        ((call("add", amount="1"),), "amount (integer or null, optional)"),
        ((call("subtract"),), "there is no function"),
        ((call("read"), call("add", amount=2)), "there is no function 'add'"),
    ],
)
def test_a_ground_truth_whose_calls_fail_is_not_recorded(
    recorded: Path, tmp_path: Path, calls: tuple[Call, ...], reason: str
) -> None:
    faulty = task(Turn("Answer first.", ()), Turn("Go.", calls), withheld=("add",) if len(calls) > 1 else ())
    with pytest.raises(
        RecordingError, match=f"task t: its ground truth does not solve turn 2.*{re.escape(reason)}"
    ):
        record(faulty, tmp_path)


def test_a_ground_truth_outside_the_recording_is_no_task_to_train_on(recorded: Path, no_server: None) -> None:
    with pytest.raises(TruthUnknownError, match=r"task t: .*outside the recording: add.*docs/worlds\.md"):
        play(task(Turn("Add four.", (call("add", amount=4),))), simulation(recorded), [[]])


def test_two_different_calls_outside_the_recording_are_not_taken_for_each_other(
    recorded: Path, no_server: None
) -> None:
    where = task(Turn("Where is a?", (call("where", path="a"),)))
    assert play(where, simulation(recorded), [[call("where", path="b")]])[1] == 0.0


def test_a_variant_never_starts_a_server(recorded: Path, tmp_path: Path, no_server: None) -> None:
    """Its initial state, which names the command, may be what a model wrote."""
    variant = replace(TWO, origin=Origin.VARIANT)
    with pytest.raises(CassetteError, match="nothing is recorded"):
        play(variant, simulation(tmp_path, "record"), RIGHT)
    with pytest.raises(CassetteError, match="nothing is recorded"):
        open_world(variant, simulation=simulation(tmp_path, "record"))
    assert play(variant, simulation(recorded, "record"), RIGHT)[1] == 1.0


def test_withheld_tools_come_back_with_their_turn(recorded: Path, no_server: None) -> None:
    held = task(
        Turn("Add two, then three.", ()),
        Turn("Now.", tuple(RIGHT[0]), restored=("add",)),
        withheld=("add",),
    )
    seen, reward = play(held, simulation(recorded), [[], RIGHT[0]])
    assert (seen, reward) == (["12", "15"], 1.0)
    seen, reward = play(held, simulation(recorded), [[call("add", amount=2)], RIGHT[0]])
    assert "there is no function 'add'" in seen[0]
    assert reward == 0.5


def _refuse(spec: object) -> None:
    raise AssertionError("a server was started")


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
