"""The interface of simulators: what every kind keeps, and that a new kind needs one file and one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from counter_simulator import CounterSimulator
from mcp_examples import SCENARIO, call, message, settings
from mcp_examples import simulator as mcp_simulator

import rods.simulation.simulator as kinds
from rods.config import RewardConfig, SimulationConfig
from rods.registry import Registry, UnknownNameError
from rods.reward import progress
from rods.simulation.isolation import ScenarioError
from rods.simulation.session import Session, open_world
from rods.simulation.simulator import Opening, Simulator, open_simulator
from rods.simulation.world import FunctionClashError
from rods.tasks.model import Call, Task, TaskType, Turn

TREE = {"root": {"home": {"type": "directory", "contents": {"a.txt": {"type": "file", "content": "one"}}}}}
KINDS: dict[str, tuple[Callable[[Path], Simulator], list[Call]]] = {
    "bfcl": (
        lambda folder: open_simulator(Opening("GorillaFileSystem", TREE)),
        [call("mkdir", dir_name="b"), call("cd", folder="b"), call("touch", file_name="c"), call("pwd")],
    ),
    "mcp": (
        lambda folder: mcp_simulator(folder, "record"),
        [call("add", amount=2), call("read"), call("add", amount=5), call("read")],
    ),
    "counter": (
        lambda folder: CounterSimulator("counter:x", 1),
        [call("increase", amount=2), call("show"), call("increase", amount=-1), call("show")],
    ),
}


@pytest.fixture(params=sorted(KINDS))
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Callable[[], Simulator], list[Call]]:
    build, calls = KINDS[request.param]
    return lambda: build(tmp_path), calls


def test_a_restored_simulator_goes_on_as_it_did_from_there(
    kind: tuple[Callable[[], Simulator], list[Call]],
) -> None:
    build, calls = kind
    simulator = build()
    first = [simulator.call(item) for item in calls[:2]]
    middle, state = simulator.snapshot(), simulator.state()
    rest = [simulator.call(item) for item in calls[2:]]
    end = simulator.state()
    for _ in range(2):
        simulator.restore(middle)
        assert simulator.state() == state != end
        assert [simulator.call(item) for item in calls[2:]] == rest
        assert simulator.state() == end
    simulator.close()
    fresh = build()
    assert [fresh.call(item) for item in calls] == first + rest
    fresh.close()


def test_worlds_do_not_see_each_other(kind: tuple[Callable[[], Simulator], list[Call]]) -> None:
    build, calls = kind
    used, untouched = build(), build()
    before = untouched.state()
    for item in calls:
        assert not used.call(item).failed
    assert untouched.state() == before != used.state()
    used.close()
    used.close()
    untouched.close()


def test_a_new_kind_is_one_file_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = {"bfcl": "rods.simulation.bfcl_simulator:build", "counter": "counter_simulator:build"}
    monkeypatch.setattr(kinds, "SIMULATORS", Registry("kind of simulator", lines))
    turns = (
        Turn("Add five and make a folder b.", (call("increase", amount=5), call("mkdir", dir_name="b"))),
        Turn("Take two.", (call("increase", amount=-2),)),
    )
    state = {"counter:a": {"start": 1}, "GorillaFileSystem": TREE}
    task = Task("t", TaskType.BASE, ("counter:a", "GorillaFileSystem"), state, turns)

    def earned(*second: Call) -> float:
        session = Session(task, SimulationConfig(), RewardConfig())
        assert session.advance(message(*turns[0].calls)).observations == ("6", "None")
        session.advance("Done.")
        if second:
            session.advance(message(*second))
        session.advance("Done.")
        return progress(session.outcome())

    assert earned(*turns[1].calls) == 1.0
    assert (
        earned(call("increase", amount=-2), call("increase", amount=1)) == 0.5
    )  # the response, not the state
    assert earned(call("increase", amount="-2")) == 0.5
    assert earned() == 0.5


def test_a_kind_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(UnknownNameError, match=r"'web'.*bfcl, mcp"):
        open_simulator(Opening("web:shop", {}))


@pytest.mark.parametrize("name", ["mcp:", "mcp:../up", "mcp:a/b", "mcp:a b", "mcp:" + "x" * 65, "mcp:a:b"])
def test_the_name_of_an_mcp_class_is_no_path(name: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="expected mcp: and a name"):
        open_simulator(Opening(name, SCENARIO, simulation=settings(tmp_path)))


def test_two_classes_with_a_function_of_the_same_name_cannot_share_a_world(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = {"bfcl": "rods.simulation.bfcl_simulator:build", "counter": "counter_simulator:build"}
    monkeypatch.setattr(kinds, "SIMULATORS", Registry("kind of simulator", lines))
    task = Task("t", TaskType.BASE, ("counter:a", "counter:b"), {}, ())
    with pytest.raises(FunctionClashError, match="counter:b and counter:a both have a function increase"):
        open_world(task)
