"""The phrasebook: patterns that exclude each other, sentences that name their values, and what "it" means."""

from __future__ import annotations

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rods.tasks.model import Call, Task, TaskType, Turn
from rods.tasks.phrasebook import (
    PRONOUNS,
    UnknownOperationError,
    operation_of,
    operations,
    phrase,
    propose,
    referent_after,
)
from rods.tasks.phrasebook_table import FORGET, KEEP, OPERATIONS
from rods.tasks.scripted_slots import SLOTS
from rods.tasks.scripted_world import CLASS, FileWorld, ScriptedWorldError, random_workspace

FILE = {"type": "file", "content": "b two\na one"}
STATE = {
    CLASS: {
        "root": {
            "workspace": {
                "type": "directory",
                "contents": {
                    "memo.txt": FILE,
                    "plan.md": FILE,
                    "docs": {"type": "directory", "contents": {"memo.txt": FILE, "log.csv": FILE}},
                    "old": {"type": "directory", "contents": {}},
                },
            }
        }
    }
}
EMPTY = {CLASS: {"root": {"workspace": {"type": "directory", "contents": {}}}}}


def call(name: str, **arguments: object) -> Call:
    return Call(name, arguments)


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_a_proposal_is_recognised_as_its_own_operation(name: str) -> None:
    rng = random.Random(name)
    seen = 0
    for _ in range(20):
        world = FileWorld.open(STATE)
        if name == "up":
            world.execute(call("cd", folder="docs"))
        proposal = propose(world, name, "memo.txt", rng)
        if proposal is not None:
            seen += 1
            assert operation_of(proposal.calls) == name
            assert referent_after(proposal.calls, "memo.txt") == proposal.referent
    assert seen


@given(st.integers(0, 2**32), st.sampled_from(list(OPERATIONS)))
def test_proposals_succeed_in_any_workspace(seed: int, name: str) -> None:
    rng = random.Random(seed)
    world = FileWorld.open(random_workspace(rng))
    proposal = propose(world, name, None, rng)
    if proposal is not None:
        results = [world.execute(item) for item in proposal.calls]
        assert not any("error" in result.lower()[:10] for result in results)


@pytest.mark.parametrize("name", [name for name, entry in OPERATIONS.items() if "file" in entry.variables])
def test_what_an_empty_world_does_not_allow_is_none(name: str) -> None:
    assert propose(FileWorld.open(EMPTY), name, None, random.Random(0)) is None


def test_there_is_no_way_up_from_the_root() -> None:
    world = FileWorld.open(STATE)
    assert propose(world, "up", None, random.Random(0)) is None
    world.execute(call("cd", folder="docs"))
    assert propose(world, "up", None, random.Random(0)) is not None


def test_a_folder_that_holds_a_file_of_that_name_is_not_a_target() -> None:
    rng, world = random.Random(0), FileWorld.open(STATE)
    for _ in range(50):
        proposal = propose(world, "mv_into", "memo.txt", rng)
        assert proposal is not None
        (move,) = proposal.calls
        assert (move.arguments["source"], move.arguments["destination"]) != ("memo.txt", "docs")


def test_templates_name_exactly_the_variables_of_their_pattern_that_a_user_must_say() -> None:
    computed = {"counted", "copied", "sorted", "parent"}
    for entry in OPERATIONS.values():
        for template in entry.templates:
            named = {field for _, field, _, _ in string.Formatter().parse(template) if field}
            assert named == set(entry.variables) - computed, (entry.name, template)


def test_every_variable_has_a_slot_and_every_slot_a_use() -> None:
    assert {variable for entry in OPERATIONS.values() for variable in entry.variables} == set(SLOTS)
    for entry in OPERATIONS.values():
        assert entry.leaves in (KEEP, FORGET, *entry.variables)


def test_results_that_a_request_writes_down_are_computed_from_the_world() -> None:
    rng, world = random.Random(0), FileWorld.open(STATE)
    written = {}
    for name in ("dep_sort", "dep_copy", "dep_count"):
        proposal = propose(world, name, None, rng)
        assert proposal is not None
        written[name] = proposal.calls[-1].arguments["content"]
    assert written["dep_sort"] == "a one\nb two"
    assert written["dep_copy"] == "b two\na one"
    assert written["dep_count"] in {"2", "4", "11"}


def test_a_pronoun_stands_for_the_file_spoken_of_and_only_for_it() -> None:
    rng = random.Random(0)
    calls = [call("cat", file_name="memo.txt")]
    about = [phrase(calls, "memo.txt", rng) or "" for _ in range(60)]
    assert any("memo.txt" not in sentence for sentence in about)
    assert any("memo.txt" in sentence for sentence in about)
    for sentence in about:
        assert "memo.txt" in sentence or any(word in sentence.lower() for word in PRONOUNS)
    for referent in (None, "plan.md"):
        assert all("'memo.txt'" in (phrase(calls, referent, rng) or "") for _ in range(60))


def test_a_proposal_that_says_a_pronoun_is_about_the_referent() -> None:
    rng, world = random.Random(1), FileWorld.open(STATE)
    pronouns = 0
    for _ in range(100):
        proposal = propose(world, "rm", "plan.md", rng)
        assert proposal is not None
        file = proposal.calls[0].arguments["file_name"]
        if file not in proposal.query:
            pronouns += 1
            assert file == "plan.md"
    assert 10 < pronouns < 90


def test_a_file_that_is_not_here_is_never_it() -> None:
    rng, world = random.Random(2), FileWorld.open(STATE)
    for _ in range(60):
        proposal = propose(world, "cat", "gone.txt", rng)
        assert proposal is not None
        assert proposal.calls[0].arguments["file_name"] in proposal.query


@pytest.mark.parametrize(
    ("calls", "before", "after"),
    [
        ([call("mv", source="a.txt", destination="b.txt")], "a.txt", "b.txt"),
        ([call("mv", source="a.txt", destination="docs")], "a.txt", None),
        ([call("cp", source="a.txt", destination="docs")], None, "a.txt"),
        ([call("ls")], "a.txt", "a.txt"),
        ([call("cd", folder="docs")], "a.txt", None),
        ([call("cd", folder="..")], "a.txt", "a.txt"),
        ([call("fly")], "a.txt", None),
    ],
)
def test_what_it_means_afterwards(calls: list[Call], before: str | None, after: str | None) -> None:
    assert referent_after(calls, before) == after


@pytest.mark.parametrize(
    "calls",
    [
        [],
        [call("du")],
        [call("ls", a=True)],
        [call("cat", file_name="docs")],
        [call("cat", file_name="docs/memo.txt")],
        [call("cat", file_name=7)],
        [call("tail", file_name="a.txt", lines="3")],
        [call("wc", file_name="a.txt", mode="x")],
        [call("cat", file_name="a.txt"), call("ls")],
        # The same functions as "create with text", but two different files.
        [call("touch", file_name="a.txt"), call("echo", content="x", file_name="b.txt")],
        # The same functions as "visit", without the way back.
        [call("cd", folder="docs"), call("touch", file_name="a.txt"), call("cd", folder="old")],
    ],
)
def test_calls_that_fit_no_pattern_have_no_phrase(calls: list[Call]) -> None:
    assert operation_of(calls) is None
    assert phrase(calls, None, random.Random(0)) is None


def test_a_task_that_is_not_scripted_is_refused_with_its_turn() -> None:
    turns = (Turn("Where?", (call("pwd"),)), Turn("Fly!", (call("du"), call("ls"))))
    task = Task("t1", TaskType.BASE, (CLASS,), STATE, turns)
    with pytest.raises(UnknownOperationError, match=r"'t1', turn 2.*du, ls"):
        operations(task)


def test_an_unknown_operation_is_refused() -> None:
    with pytest.raises(UnknownOperationError, match=r"'fly'.*touch"):
        propose(FileWorld.open(STATE), "fly", None, random.Random(0))


def test_a_world_without_a_file_system_is_refused() -> None:
    with pytest.raises(ScriptedWorldError, match="found TwitterAPI"):
        FileWorld.open({"TwitterAPI": {}})


@pytest.mark.parametrize("name", ["format_disk", "_load_scenario", "__init__", "root"])
def test_only_public_functions_of_the_simulator_run(name: str) -> None:
    with pytest.raises(ScriptedWorldError, match=name):
        FileWorld.open(STATE).execute(call(name))


def test_worlds_are_isolated_from_each_other_and_from_the_state() -> None:
    first, second = FileWorld.open(STATE), FileWorld.open(STATE)
    first.execute(call("echo", content="changed", file_name="memo.txt"))
    assert second.content("memo.txt") == "b two\na one"
    assert FileWorld.open(STATE).content("memo.txt") == "b two\na one"


def test_a_fault_of_the_simulator_is_a_result() -> None:
    world = FileWorld.open(STATE)
    assert world.execute(call("cat")).startswith("Error during execution: ")
