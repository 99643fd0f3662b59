"""The phrasebook: requests that a live world allows, said with and without what they need, and recognised again."""

from __future__ import annotations

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rods.tasks.model import Call, Task, TaskType, Turn
from rods.tasks.phrasebook import (
    OPERATIONS,
    PRONOUNS,
    SLOTS,
    Proposal,
    UnknownOperationError,
    leave_out,
    operation_of,
    operations,
    propose,
)
from rods.tasks.phrasebook_operation import FORGET, KEEP, SUBJECTS, TOPICS
from rods.tasks.scripted_states import CLASSES, FILES, MESSAGES, TICKETS, random_state
from rods.tasks.scripted_world import LiveWorld, ScriptedWorldError, is_error

FILE = {"type": "file", "content": "b two\na one"}
NOTE = {"type": "file", "content": "green moon"}
TREE = {
    "root": {
        "workspace": {
            "type": "directory",
            "contents": {
                "memo.txt": FILE,
                "plan.md": NOTE,
                "docs": {"type": "directory", "contents": {"memo.txt": FILE, "log.csv": FILE}},
                "old": {"type": "directory", "contents": {}},
            },
        }
    }
}


def ticket(number: int, status: str) -> dict[str, object]:
    return {
        "id": number,
        "title": f"title {number}",
        "description": "",
        "status": status,
        "priority": 1,
        "created_by": "Ada",
    }


QUEUE = {
    "ticket_queue": [ticket(40, "Open"), ticket(41, "Closed"), ticket(42, "Open")],
    "ticket_counter": 43,
    "current_user": "Ada",
}
CIRCLE = {
    "user_count": 3,
    "user_map": {"Ada": "USR001", "Ben": "USR002", "Carla": "USR003"},
    "inbox": [{"USR002": "red sun"}],
    "message_count": 1,
    "current_user": "USR001",
}
STATE = {FILES: TREE, TICKETS: QUEUE, MESSAGES: CIRCLE}
EMPTY = {
    FILES: {"root": {"workspace": {"type": "directory", "contents": {}}}},
    TICKETS: {"ticket_queue": [], "ticket_counter": 9, "current_user": "Ada"},
    MESSAGES: {"user_count": 0, "user_map": {}, "inbox": [], "message_count": 0, "current_user": "USR001"},
}
COMPUTED = {
    *("counted", "copied", "sorted", "note_text", "parent"),
    *("next_ticket", "ticket_title", "person_id", "friend_id", "next_id"),
}
"""What nobody says: it follows from the world, or from an earlier result."""


def call(name: str, **arguments: object) -> Call:
    return Call(name, arguments)


def proposed(name: str, seed: object = 0, **referents: object) -> Proposal:
    world = LiveWorld.open(STATE)
    if name == "up":
        world.execute(call("cd", folder="docs"))
    proposal = propose(world, name, referents, random.Random(f"{name} {seed}"))
    assert proposal is not None
    return proposal


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_a_proposal_is_recognised_as_its_own_operation_and_runs(name: str) -> None:
    for seed in range(20):
        proposal = proposed(name, seed, file="memo.txt")
        assert operation_of(proposal.calls) == name
        world = LiveWorld.open(STATE)
        if name == "up":
            world.execute(call("cd", folder="docs"))
        assert not any(is_error(world.execute(item)) for item in proposal.calls)


@given(st.integers(0, 2**32), st.sampled_from(list(OPERATIONS)))
def test_proposals_succeed_in_any_world(seed: int, name: str) -> None:
    rng = random.Random(seed)
    world = LiveWorld.open(random_state(rng, CLASSES))
    proposal = propose(world, name, {}, rng)
    if proposal is not None:
        assert not any(is_error(world.execute(item)) for item in proposal.calls)


@pytest.mark.parametrize("name", [name for name, entry in OPERATIONS.items() if entry.subject])
def test_what_an_empty_world_does_not_allow_is_none(name: str) -> None:
    assert propose(LiveWorld.open(EMPTY), name, {}, random.Random(0)) is None


def test_there_is_no_way_up_from_the_root() -> None:
    world = LiveWorld.open(STATE)
    assert propose(world, "up", {}, random.Random(0)) is None
    world.execute(call("cd", folder="docs"))
    assert propose(world, "up", {}, random.Random(0)) is not None


def test_a_folder_that_holds_a_file_of_that_name_is_not_a_target() -> None:
    for seed in range(50):
        (move,) = proposed("mv_into", seed, file="memo.txt").calls
        assert (move.arguments["source"], move.arguments["destination"]) != ("memo.txt", "docs")


def test_a_closed_ticket_is_not_closed_again() -> None:
    for seed in range(30):
        (close,) = proposed("close", seed, ticket=41).calls
        assert close.arguments["ticket_id"] in {40, 42}


def test_messages_are_taken_back_only_from_people_who_got_one() -> None:
    assert {proposed("unsend", seed).calls[0].arguments["user"] for seed in range(30)} == {"Ben"}
    assert {proposed("unsend_id", seed).calls[0].arguments["receiver_id"] for seed in range(30)} == {"USR002"}


def named(template: str) -> set[str]:
    return {field for _, field, _, _ in string.Formatter().parse(template) if field}


def test_templates_name_exactly_the_variables_of_their_pattern_that_a_user_must_say() -> None:
    for entry in OPERATIONS.values():
        for template in entry.templates:
            assert named(template) == set(entry.variables) - COMPUTED, (entry.name, template)


def test_an_omission_leaves_out_its_variable_and_the_addition_gives_it() -> None:
    for entry in OPERATIONS.values():
        for gap in entry.gaps:
            said = set(entry.variables) - COMPUTED
            assert gap.variable in said
            assert gap.variable not in named(gap.asked)
            assert gap.variable in named(gap.added)
            assert named(gap.asked) | named(gap.added) == said, (entry.name, gap)


def test_every_variable_has_a_slot_and_every_slot_a_use() -> None:
    left = {entry.leaves for entry in OPERATIONS.values()} - {KEEP, FORGET}
    assert {name for entry in OPERATIONS.values() for name in entry.variables} | left == set(SLOTS)
    assert left <= set(TOPICS)
    for name in SUBJECTS:
        assert SLOTS[name].candidates is not None
        assert TOPICS[name] in PRONOUNS


def test_results_that_a_request_uses_are_computed_from_the_world() -> None:
    used = {
        name: proposed(name).calls[-1].arguments
        for name in ("dep_count", "ticket_mail", "add_write", "file_ticket", "open_close", "id_file", "twin")
    }
    assert used["dep_count"]["content"] in {"1", "2", "4", "10", "11"}
    assert used["ticket_mail"]["message"] in {"title 40", "title 41", "title 42"}
    assert used["ticket_mail"]["receiver_id"] in {"USR001", "USR002", "USR003"}
    assert used["add_write"]["receiver_id"] == "USR004"
    assert used["file_ticket"] == {"title": "green moon"}
    assert used["open_close"] == {"ticket_id": 43}
    assert used["id_file"]["content"].startswith("USR00")
    assert used["twin"]["title"].startswith("title 4")
    written = {
        proposal.calls[0].arguments["file_name"]: proposal.calls[-1].arguments["content"]
        for proposal in (proposed("dep_sort", seed) for seed in range(20))
    }
    assert written == {"memo.txt": "a one\nb two", "plan.md": "green moon"}


@pytest.mark.parametrize(
    ("name", "topic", "spoken_of", "value"),
    [
        ("rm", "file", "plan.md", "plan.md"),
        ("close", "ticket", 42, 42),
        ("retitle", "ticket", 41, 41),
        ("write_id", "person", "USR003", "USR003"),
    ],
)
def test_a_request_that_says_a_pronoun_is_about_what_was_spoken_of(
    name: str, topic: str, spoken_of: object, value: object
) -> None:
    pronouns = 0
    for seed in range(100):
        proposal = proposed(name, seed, **{topic: spoken_of})
        subject = proposal.bindings[str(proposal.entry.subject)]
        if (
            any(word in proposal.query.lower() for word in PRONOUNS[topic])
            and str(subject) not in proposal.query
        ):
            pronouns += 1
            assert subject == value
    assert 20 < pronouns < 70


def test_what_the_world_does_not_hold_is_never_spoken_of_as_it() -> None:
    for seed in range(40):
        proposal = proposed("cat", seed, file="gone.txt", ticket=40)
        assert proposal.calls[0].arguments["file_name"] in proposal.query


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("rename", "file"),
        ("touch", "file"),
        ("open", "ticket"),
        ("open_close", "ticket"),
        ("id_of", "person"),
        ("add", "person"),
        ("ls", None),
        ("up", None),
        ("my_tickets", None),
    ],
)
def test_a_request_changes_what_one_topic_means(name: str, changed: str | None) -> None:
    before = {"file": "gone.txt", "ticket": 1, "person": "USR900"}
    after = proposed(name, **before).referents
    assert {topic for topic in before if after[topic] != before[topic]} == ({changed} if changed else set())


def test_what_was_opened_or_added_is_what_the_pronoun_then_means() -> None:
    assert proposed("open").referents == {"ticket": 43}
    assert proposed("add").referents == {"person": "USR004"}
    assert proposed("rm", file="plan.md", ticket=40).referents == {"ticket": 40}


def test_an_omission_says_the_rest_of_the_request_and_names_the_argument() -> None:
    world = LiveWorld.open(STATE)
    for name in ("rename", "resolve", "write", "reprioritise", "dep_new"):
        for seed in range(10):
            proposal = proposed(name, seed)
            omission = leave_out(proposal, world, random.Random(seed))
            assert omission is not None
            values = omission.value.values() if isinstance(omission.value, dict) else [omission.value]
            assert all(str(value) in omission.added for value in values)
            found = [item.arguments for item in proposal.calls if item.name == omission.function]
            assert found[0][omission.parameter] == omission.value
    assert leave_out(proposed("ls"), world, random.Random(0)) is None


def test_what_a_pronoun_says_is_not_left_out() -> None:
    world = LiveWorld.open(STATE)
    for seed in range(40):
        proposal = proposed("sort", seed, file="memo.txt")
        omission = leave_out(proposal, world, random.Random(0))
        assert (omission is None) == ("'" not in proposal.query)


def test_the_only_thing_of_its_kind_would_not_have_to_be_asked_for() -> None:
    world = LiveWorld.open(STATE)
    proposal = proposed("cat")
    assert leave_out(proposal, world, random.Random(0)).alone is False  # type: ignore[union-attr]
    other = {"memo.txt", "plan.md"} - {proposal.calls[0].arguments["file_name"]}
    world.execute(call("rm", file_name=other.pop()))
    assert leave_out(proposal, world, random.Random(0)).alone is True  # type: ignore[union-attr]


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
        [call("get_ticket", ticket_id="4")],
        [call("edit_ticket", ticket_id=4, updates={"priority": 2, "title": "x"})],
        [call("create_ticket", title="x", description="y")],
        # The same functions as "create with text", but two different files.
        [call("touch", file_name="a.txt"), call("echo", content="x", file_name="b.txt")],
        # The same functions as "visit", without the way back.
        [call("cd", folder="docs"), call("touch", file_name="a.txt"), call("cd", folder="old")],
    ],
)
def test_calls_that_fit_no_pattern_are_no_operation(calls: list[Call]) -> None:
    assert operation_of(calls) is None


def test_turns_without_calls_are_no_operations_of_a_task() -> None:
    turns = (Turn("Look!", ()), Turn("Where?", (call("pwd"),)))
    assert operations(Task("t1", TaskType.MISS_FUNC, (FILES,), STATE, turns)) == ("pwd",)


def test_a_task_that_is_not_scripted_is_refused_with_its_turn() -> None:
    turns = (Turn("Where?", (call("pwd"),)), Turn("Fly!", (call("du"), call("ls"))))
    task = Task("t1", TaskType.BASE, (FILES,), STATE, turns)
    with pytest.raises(UnknownOperationError, match=r"'t1', turn 2.*du, ls"):
        operations(task)


def test_an_unknown_operation_is_refused() -> None:
    with pytest.raises(UnknownOperationError, match=r"'fly'.*touch"):
        propose(LiveWorld.open(STATE), "fly", {}, random.Random(0))


@pytest.mark.parametrize(("state", "found"), [({"TwitterAPI": {}}, "TwitterAPI"), ({}, "nothing")])
def test_a_world_of_other_classes_is_refused(state: dict[str, object], found: str) -> None:
    with pytest.raises(ScriptedWorldError, match=f"found {found}"):
        LiveWorld.open(state)


@pytest.mark.parametrize("name", ["format_disk", "_load_scenario", "__init__", "root", "ticket_queue"])
def test_only_public_functions_of_the_simulators_run(name: str) -> None:
    with pytest.raises(ScriptedWorldError, match=name):
        LiveWorld.open(STATE).execute(call(name))


def test_worlds_are_isolated_from_each_other_and_from_the_state() -> None:
    first, second = LiveWorld.open(STATE), LiveWorld.open(STATE)
    first.execute(call("echo", content="changed", file_name="memo.txt"))
    first.execute(call("close_ticket", ticket_id=40))
    first.execute(call("add_contact", user_name="Emma"))
    for world in (second, LiveWorld.open(STATE)):
        assert world.content("memo.txt") == "b two\na one"
        assert world.tickets()[40]["status"] == "Open"
        assert "Emma" not in world.people()


def test_views_follow_the_world() -> None:
    world = LiveWorld.open(STATE)
    assert (world.next_ticket(), world.next_user_id()) == (43, "USR004")
    world.execute(call("create_ticket", title="red"))
    world.execute(call("add_contact", user_name="Emma"))
    world.execute(call("send_message", receiver_id="USR004", message="hi"))
    assert world.tickets()[43]["title"] == "red"
    assert world.people()["Emma"] == "USR004"
    assert world.messages()[-1] == ("USR004", "hi")
    assert (world.next_ticket(), world.next_user_id()) == (44, "USR005")


def test_a_fault_of_the_simulator_is_a_result() -> None:
    world = LiveWorld.open(STATE)
    assert world.execute(call("cat")).startswith("Error during execution: ")
    assert is_error(world.execute(call("close_ticket", ticket_id=41)))
