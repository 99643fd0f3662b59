"""Our executor and checker beside BFCL's own: ground truths, seeded trajectories, and BFCL's known leaks.

`RODS_PARITY=100000` makes the nightly run of it; `python -m benchmarks.parity` prints the counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("bfcl_eval")

from benchmarks import parity
from benchmarks.mutations import KINDS
from benchmarks.official import LEAKS, Failure, OfficialChecker, read_entries
from rods.config import TasksConfig
from rods.simulation.session import open_world
from rods.tasks import load
from rods.tasks.bfcl import parse_call
from rods.tasks.model import Task, TaskType, Turn

pytestmark = pytest.mark.slow

TRAJECTORIES = int(os.environ.get("RODS_PARITY", "5000"))


@pytest.fixture(scope="module")
def tasks() -> tuple[Task, ...]:
    loaded = load(TasksConfig(source="bfcl"))
    return (*loaded.train, *loaded.heldout)


@pytest.fixture(scope="module")
def entries() -> dict[str, dict[str, Any]]:
    return read_entries()


@pytest.fixture
def official() -> Iterator[OfficialChecker]:
    checker = OfficialChecker()
    yield checker
    checker.forget()


def test_results_equal_on_every_ground_truth(
    tasks: tuple[Task, ...], entries: dict[str, dict[str, Any]], official: OfficialChecker
) -> None:
    for task in tasks:
        official.forget()
        world = open_world(task)
        for turn, texts in zip(task.turns, entries[task.id]["ground_truth"], strict=True):
            expected = official.execute(entries[task.id], texts)
            assert [world.execute(call).text for call in turn.calls] == expected, task.id


@pytest.mark.timeout(3600)
def test_verdicts_agree_on_seeded_trajectories() -> None:
    report = parity.run(TRAJECTORIES, seed=0)
    assert report.disagreements == []
    assert report.trajectories == TRAJECTORIES
    assert report.kinds.keys() == KINDS.keys()
    assert report.verdicts.keys() == {"passed", "empty", "state", "response", "terminated"}
    assert min(report.verdicts.values()) > TRAJECTORIES / 100


def test_every_ground_truth_passes_on_both_sides(
    tasks: tuple[Task, ...], entries: dict[str, dict[str, Any]], official: OfficialChecker
) -> None:
    for task in tasks:
        turns = tuple((tuple(turn),) if turn else () for turn in entries[task.id]["ground_truth"])
        assert parity.played(parity.Trajectory(task, (), turns))[0] is None, task.id
        assert official.check(entries[task.id], turns) is None, task.id


CARD = "1234567812345678"
INSURANCE = (
    f"purchase_insurance(access_token='t', insurance_type='travel', insurance_cost=100.0, "
    f"booking_id='{{booking}}', card_id='{CARD}')"
)
TWEETS = {"TwitterAPI": {"authenticated": True, "username": "a"}}
TRAVEL = {"TravelAPI": {"access_token": "t", "token_expires_in": 9, "budget_limit": 10_000.0}}
COMMENT = "comment(tweet_id=0, comment_content='x')"
ECHO = "echo(content='run cd(x)', file_name='f')"
ROOT = {"GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": {}}}}}

# leak → (type, state, ground truth, what the policy does, the right verdict)
CASES: dict[str, tuple[TaskType, dict[str, Any], list[list[str]], list[list[str]], Failure | None]] = {
    "long_context credit cards and bookings are one module dictionary": (
        TaskType.LONG_CONTEXT,
        TRAVEL,
        [[INSURANCE]],
        [[INSURANCE, INSURANCE]],
        Failure(0, "state"),
    ),
    "post_tweet's default lists are shared by all instances": (
        TaskType.BASE,
        TWEETS,
        [["post_tweet(content='a')"], [COMMENT]],
        [["post_tweet(content='a')"], [COMMENT, "mention(tweet_id=0, mentioned_usernames=['@x'])"]],
        Failure(1, "state"),
    ),
    "names followed by a bracket are rewritten inside strings": (
        TaskType.BASE,
        ROOT,
        [["touch(file_name='f')", ECHO]],
        [["touch(file_name='f')", ECHO]],
        None,
    ),
}


def booking() -> str:
    from bfcl_eval.eval_checker.multi_turn_eval.func_source_code.long_context import BOOKING_RECORD_EXTENSION

    return next(iter(BOOKING_RECORD_EXTENSION))


def test_every_leak_has_a_case() -> None:
    assert CASES.keys() == LEAKS.keys()


@pytest.mark.parametrize("leak", CASES)
def test_where_bfcl_is_wrong_by_its_leaks_ours_is_right(leak: str, official: OfficialChecker) -> None:
    kind, state, truth, answers, right = CASES[leak]
    truth, answers = (
        [[text.format(booking=booking()) if "{booking}" in text else text for text in turn] for turn in turns]
        for turns in (truth, answers)
    )
    classes = tuple(state)
    turns = tuple(Turn("?", tuple(parse_call(text, classes) for text in turn)) for turn in truth)
    task = Task(f"multi_turn_{kind.value}_leak", kind, classes, state, turns)
    entry = {
        "id": task.id,
        "initial_config": state,
        "involved_classes": list(classes),
        "ground_truth": truth,
    }
    steps = tuple((tuple(turn),) for turn in answers)
    assert parity.played(parity.Trajectory(task, (), steps))[0] == right
    assert official.check(entry, steps) != right
    assert official.check(entry, steps, repaired=leak) == right
    report = parity.Report()
    parity.compare(official, entry, parity.Trajectory(task, (), steps), report)
    assert report.leaks == {leak: 1}
    assert report.disagreements == []
