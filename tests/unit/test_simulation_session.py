"""Episodes: turns, steps, what the policy sees, what the outcome records."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rods.config import RewardConfig, SimulationConfig
from rods.reward import build
from rods.simulation.checker import Judge, JudgeError, TurnVerdict, includes
from rods.simulation.session import Advance, Session, SessionError, open_world
from rods.tasks.model import Call, Task, TaskType, Turn

TREE = {
    "root": {"home": {"type": "directory", "contents": {"a.txt": {"type": "file", "content": "one\ntwo"}}}}
}
PASSED = TurnVerdict(state=True, response=True, judged=True)


def call(name: str, **arguments: Any) -> Call:
    return Call(name, arguments)


def task(*turns: Turn, withheld: tuple[str, ...] = ()) -> Task:
    return Task("t", TaskType.BASE, ("GorillaFileSystem",), {"GorillaFileSystem": TREE}, turns, withheld)


def session(subject: Task, limit: int = 5, chars: int = 1000, empty_turn: str = "envtuning") -> Session:
    return Session(subject, SimulationConfig(limit, chars), RewardConfig(empty_turn=empty_turn))


def message(*calls: Call) -> str:
    return "\n".join(f"<tool_call>\n{json.dumps(item.to_json())}\n</tool_call>" for item in calls)


TWO = task(
    Turn("Make b.", (call("mkdir", dir_name="b"),)),
    Turn("Look.", (call("ls"), call("cat", file_name="a.txt"))),
)


def passed(subject: Session) -> list[bool]:
    return [verdict.passed for verdict in subject.outcome().verdicts]


def test_a_dialogue_runs_turn_by_turn() -> None:
    episode = session(TWO)
    assert episode.query == "Make b."
    assert {tool["function"]["name"] for tool in episode.tools} >= {"mkdir", "ls", "cat"}
    assert episode.advance(message(call("mkdir", dir_name="b"))) == Advance(("None",), None, (), False)
    assert episode.advance("Done.") == Advance((), "Look.", (), False)
    seen = episode.advance(message(call("ls"), call("cat", file_name="a.txt")))
    assert seen.observations == (
        '{"current_directory_content": ["a.txt", "b"]}',
        '{"file_content": "one\\ntwo"}',
    )
    assert not episode.finished
    assert episode.advance("Done.") == Advance((), None, (), True)
    assert episode.finished
    outcome = episode.outcome()
    assert (outcome.verdicts, outcome.codes) == ((PASSED, PASSED), (-1, 1, -1, -1, 1))
    assert (outcome.turns, outcome.calls) == (2, 3)
    with pytest.raises(SessionError, match="finished"):
        episode.advance("More?")


def test_a_failed_turn_does_not_end_the_episode() -> None:
    episode = session(TWO)
    episode.advance("I will not.")
    episode.advance(message(call("mkdir", dir_name="b"), call("ls"), call("cat", file_name="a.txt")))
    episode.advance("Done.")
    assert passed(episode) == [False, True]
    assert build("progress")(episode.outcome()) == 0.5


def test_abandoned_turns_count_nothing_and_n_stays() -> None:
    episode = session(TWO)
    episode.advance(message(call("mkdir", dir_name="b")))
    episode.advance("Done.")
    episode.advance(message(call("ls"), call("cat", file_name="a.txt")))
    episode.abandon()
    assert episode.finished
    assert build("progress")(episode.outcome()) == 0.5
    with pytest.raises(SessionError):
        episode.advance("Done.")


def test_the_call_beyond_the_step_limit_ends_the_turn_unrun() -> None:
    episode = session(TWO, limit=2)
    episode.advance(message(call("ls"), call("ls"), call("ls")))
    episode.advance(message(call("mkdir", dir_name="b")))
    assert episode.advance(message(call("rm", file_name="b"))) == Advance((), "Look.", (), False)
    assert passed(episode) == [True]
    assert episode.outcome().calls == 4
    assert episode.advance(message(call("ls"))).observations == (
        '{"current_directory_content": ["a.txt", "b"]}',
    )


def test_unreadable_and_wrong_calls_are_told_and_coded() -> None:
    episode = session(TWO)
    text = message(call("mkdir", dir_name="b"), call("cd"), call("cat", file_name="no"))
    seen = episode.advance("<tool_call>{'name'}</tool_call>" + text).observations
    assert "could not be read" in seen[0]
    assert "missing arguments: folder" in seen[2]
    assert episode.outcome().codes == (-3, -1, -2, -2)
    episode.advance("Done.")
    assert passed(episode) == [True]


def test_long_results_are_cut_for_the_policy_but_not_for_the_judge() -> None:
    episode = session(task(Turn("Show.", (call("cat", file_name="a.txt"),))), chars=10)
    (shown,) = episode.advance(message(call("cat", file_name="a.txt"))).observations
    assert shown == '{"file_con… [cut: 28 characters in all]'
    episode.advance("Done.")
    assert passed(episode) == [True]


LATER = task(
    Turn("Sort a.txt.", ()),
    Turn("And now?", (call("sort", file_name="a.txt"),), ("sort",)),
    withheld=("sort",),
)


def test_a_withheld_function_comes_back_with_its_turn() -> None:
    episode = session(LATER)
    assert "sort" not in {tool["function"]["name"] for tool in episode.tools}
    back = episode.advance("I cannot sort.")
    assert back.query == "And now?"
    assert [tool["function"]["name"] for tool in back.restored] == ["sort"]
    episode.advance(message(call("sort", file_name="a.txt")))
    episode.advance("Done.")
    assert passed(episode) == [True, True]


def test_a_withheld_function_cannot_be_called() -> None:
    episode = session(LATER)
    (seen,) = episode.advance(message(call("sort", file_name="a.txt"))).observations
    assert "there is no function 'sort'" in seen


@pytest.mark.parametrize("text", [message(call("ls")), "<tool_call>oops</tool_call>"])
@pytest.mark.parametrize(("empty_turn", "expected"), [("envtuning", False), ("official", True)])
def test_an_attempt_fails_a_turn_without_ground_truth_unless_it_is_not_judged(
    text: str, empty_turn: str, expected: bool
) -> None:
    episode = session(LATER, empty_turn=empty_turn)
    episode.advance(text)
    episode.advance("I cannot sort.")
    (verdict,) = episode.outcome().verdicts
    assert verdict.passed is expected
    assert verdict.judged is (empty_turn == "envtuning")


def test_a_turn_with_ground_truth_needs_a_call_that_was_read() -> None:
    look = Turn("Look.", (call("ls"),))
    for text in ("", "<tool_call>ls</tool_call>"):
        episode = session(task(look, look))
        episode.advance(message(call("ls"), call("ls")))
        episode.advance("Done.")
        episode.advance(text or "Nothing new.")
        if not episode.finished:
            episode.advance("Done.")
        assert passed(episode) == [True, False]


def test_extra_changes_fail_the_state_and_missing_results_the_response() -> None:
    for calls, state, response in (
        ((call("ls"), call("cat", file_name="a.txt"), call("touch", file_name="c")), False, True),
        ((call("ls"),), True, False),
        ((call("cat", file_name="a.txt"), call("ls"), call("pwd")), True, True),
    ):
        episode = session(task(Turn("Look.", (call("ls"), call("cat", file_name="a.txt")))))
        episode.advance(message(*calls))
        episode.advance("Done.")
        assert episode.outcome().verdicts == (TurnVerdict(state, response, judged=True),)


def test_results_of_earlier_turns_count_but_only_once_each() -> None:
    assert includes(["a", "b"], ["b"])
    assert includes(["b", "a", "a"], ["a", "b", "a"])
    assert not includes(["a", "b"], ["a", "a"])
    assert includes([], [])


def test_the_working_directory_is_not_part_of_the_state() -> None:
    subject = task(Turn("Go.", (call("mkdir", dir_name="b"),)), Turn("Look.", (call("pwd"),)))
    episode = session(subject)
    episode.advance(message(call("mkdir", dir_name="b"), call("cd", folder="b")))
    episode.advance("Done.")
    episode.advance(message(call("pwd")))
    episode.advance("Done.")
    assert episode.outcome().verdicts == (PASSED, TurnVerdict(state=True, response=False, judged=True))


def test_a_directory_put_inside_itself_is_a_wrong_state() -> None:
    episode = session(task(Turn("Make b.", (call("mkdir", dir_name="b"),)), Turn("Look.", (call("ls"),))))
    episode.advance(message(call("mkdir", dir_name="b"), call("cp", source="b", destination="b")))
    episode.advance("Done.")
    assert passed(episode) == [False]


def test_a_ground_truth_with_a_directory_inside_itself_fails_without_an_exception() -> None:
    calls = (call("mkdir", dir_name="b"), call("cp", source="b", destination="b"))
    episode = session(task(Turn("Odd.", calls)))
    episode.advance(message(*calls))
    episode.advance("Done.")
    assert passed(episode) == [False]


def test_episodes_of_one_task_do_not_meet() -> None:
    first, second = session(TWO), session(TWO)
    first.advance(message(call("mkdir", dir_name="b"), call("rm", file_name="a.txt")))
    assert second.advance(message(call("ls"))).observations == ('{"current_directory_content": ["a.txt"]}',)


def test_misuse_is_refused() -> None:
    with pytest.raises(SessionError, match="at least one"):
        session(task())
    with pytest.raises(JudgeError, match="empty_turn"):
        Judge(TWO, "lenient")
    judge, world = Judge(TWO, "official"), open_world(TWO)
    judge.close_turn(world, [], called=False)
    judge.close_turn(world, [], called=False)
    with pytest.raises(JudgeError, match="closed"):
        judge.close_turn(world, [], called=False)


WORDS = st.sampled_from(
    ["<tool_call>", "</tool_call>", '{"name": "ls", "arguments": {}}', '"', "{", "Done. ", "<think>"]
)


@settings(deadline=None)  # machines under load
@given(st.lists(st.lists(WORDS | st.text(), max_size=6).map("".join), min_size=1, max_size=12))
def test_whatever_a_policy_says_the_episode_ends_in_order(messages: list[str]) -> None:
    episode = session(TWO, limit=1)
    for text in messages:
        if not episode.finished:
            episode.advance(text)
    outcome = episode.outcome()
    assert outcome.turns == 2
    assert len(outcome.verdicts) == 2 if episode.finished else len(outcome.verdicts) < 2
    assert 0.0 <= build("progress")(outcome) <= 1.0
    assert 0.0 <= build("format")(outcome) <= 2.0


def test_the_official_limit_runs_one_message_more_and_ends_the_episode() -> None:
    episode = Session(TWO, SimulationConfig(step_limit=1, at_limit="force_quit"), RewardConfig())
    episode.advance(message(call("ls")))
    last = episode.advance(message(call("mkdir", dir_name="b")))
    assert last == Advance(("None",), None, (), True)
    assert passed(episode) == [True]
    assert (episode.finished, build("progress")(episode.outcome())) == (True, 0.5)
    assert build("binary")(episode.outcome()) == 0
    with pytest.raises(SessionError):
        episode.advance("Done.")
