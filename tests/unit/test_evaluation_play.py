"""Playing a suite: the verdicts are the official ones, trajectories are kept, and a second start goes on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import random_policy

from rods.config import Config, ModelConfig, RolloutConfig, TasksConfig
from rods.evaluation import play, result, suites
from rods.evaluation.folders import TRAJECTORIES
from rods.evaluation.play import TrajectoryError
from rods.rollout.chat import Chat
from rods.rollout.engine import Completion, Request
from rods.tasks import load
from rods.tasks.model import Task

TOKENIZER = random_policy.tokenizer()
CONFIG = Config(
    model=ModelConfig(max_length=1_000_000),
    rollout=RolloutConfig(max_message_tokens=50_000, max_concurrent=3, temperature=0.0),
)
OFFICIAL = suites.under_rules(CONFIG, suites.get("bfcl_v3"))


class Reciter:
    """An engine that says prepared messages, task by task; it counts what it was asked."""

    name, max_length, version = "reciter", 1_000_000, 0

    def __init__(self, messages: dict[str, list[str]]) -> None:
        self._messages = {task: list(lines) for task, lines in messages.items()}
        self._asked: list[Request] = []
        self.played: set[str] = set()

    def submit(self, request: Request) -> None:
        self._asked.append(request)
        self.played.add(request.id.rpartition("/")[0])

    def step(self) -> list[Completion]:
        asked, self._asked = self._asked, []
        return [self._say(request) for request in asked]

    def _say(self, request: Request) -> Completion:
        text = self._messages[request.id.rpartition("/")[0]].pop(0) + "<|im_end|>"
        ids = tuple(TOKENIZER.encode(text, add_special_tokens=False))
        return Completion(request.id, ids, (0.0,) * len(ids), True)


def truth(task: Task) -> list[str]:
    """What a policy says that makes the ground truth's calls, a turn's in one message."""
    said = []
    for turn in task.turns:
        calls = [f"<tool_call>\n{json.dumps(call.to_json())}\n</tool_call>" for call in turn.calls]
        said += ["\n".join(calls)] if calls else []
        said += ["Done."]
    return said


def silence(task: Task) -> list[str]:
    """A policy that only ever answers."""
    return ["I cannot." for _ in task.turns]


@pytest.fixture(scope="module")
def tasks() -> tuple[Task, ...]:
    return load(TasksConfig(source="bfcl", train_count=1, heldout_count=8)).heldout


def played(
    folder: Path, tasks: Sequence[Task], engine: Reciter, config: Config = OFFICIAL
) -> list[play.Trajectory]:
    return play.play(config, engine, Chat(TOKENIZER, config.model), tasks, folder, lambda done, count: None)  # type: ignore[arg-type]


def test_the_ground_truth_passes_every_task(tmp_path: Path, tasks: tuple[Task, ...]) -> None:
    found = played(tmp_path, tasks, Reciter({task.id: truth(task) for task in tasks}))
    assert [each["task_id"] for each in found] == [task.id for task in tasks]
    assert all(each["passed"] and each["progress"] == 1 for each in found)
    assert {each["type"] for each in found} == {"base", "miss_func", "miss_param", "long_context"}


def test_who_never_calls_passes_nothing_and_turns_without_truth_are_not_judged(
    tmp_path: Path, tasks: tuple[Task, ...]
) -> None:
    found = played(tmp_path, tasks, Reciter({task.id: silence(task) for task in tasks}))
    assert not any(each["passed"] for each in found)
    empty = [turn.calls == () for task in tasks for turn in task.turns]
    judged = [judged for each in found for _, _, judged in each["verdicts"]]
    assert True in empty
    assert judged == [not each for each in empty]


def test_the_21st_message_with_calls_ends_the_episode(tmp_path: Path, tasks: tuple[Task, ...]) -> None:
    task = tasks[0]
    call = '<tool_call>\n{"name": "no_such_function", "arguments": {}}\n</tool_call>'
    (found,) = played(tmp_path, [task], Reciter({task.id: [call] * 21}))
    assert found["codes"].count(-2) == 21
    assert len(found["verdicts"]) == 1 < len(task.turns)
    assert not found["passed"]


def test_an_extra_call_where_no_truth_is_does_not_count_officially(
    tmp_path: Path, tasks: tuple[Task, ...]
) -> None:
    task = next(task for task in tasks if any(not turn.calls for turn in task.turns))
    say = truth(task)
    quiet = [bool(turn.calls) for turn in task.turns].index(False)
    place = sum(2 if turn.calls else 1 for turn in task.turns[:quiet])
    say.insert(place, '<tool_call>\n{"name": "no_such_function", "arguments": {}}\n</tool_call>')
    (found,) = played(tmp_path, [task], Reciter({task.id: say}))
    assert found["passed"]
    strict = replace(OFFICIAL, reward=replace(OFFICIAL.reward, empty_turn="envtuning"))
    (tmp_path / TRAJECTORIES).unlink()
    (found,) = played(tmp_path, [task], Reciter({task.id: say}), strict)
    assert not found["passed"]


def test_a_second_start_plays_what_is_missing_and_mends_a_line_cut_short(
    tmp_path: Path, tasks: tuple[Task, ...]
) -> None:
    messages = {task.id: truth(task) for task in tasks}
    whole = played(tmp_path, tasks, Reciter(messages))
    file = tmp_path / TRAJECTORIES
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:5]) + lines[5][:40])
    again = Reciter(messages)
    assert played(tmp_path, tasks, again) == whole
    kept = {json.loads(line)["task_id"] for line in lines[:5]}
    assert again.played == {task.id for task in tasks} - kept
    assert sorted(file.read_bytes().splitlines(keepends=True)) == sorted(lines)


def test_an_episode_is_kept_before_the_next_one_ends(tmp_path: Path, tasks: tuple[Task, ...]) -> None:
    lines: list[int] = []

    def look(done: int, count: int) -> None:
        lines.append(len((tmp_path / TRAJECTORIES).read_bytes().splitlines()))

    messages = {task.id: truth(task) for task in tasks}
    play.play(OFFICIAL, Reciter(messages), Chat(TOKENIZER, OFFICIAL.model), tasks, tmp_path, look)  # type: ignore[arg-type]
    assert lines == [0, 1, 2, 3, 4, 5, 6, 7, 8]


def test_a_failure_loses_only_the_episodes_under_way(tmp_path: Path, tasks: tuple[Task, ...]) -> None:
    one_by_one = replace(OFFICIAL, rollout=replace(OFFICIAL.rollout, max_concurrent=1))
    last = replace(tasks[0], turns=tasks[0].turns[:1])  # the shortest, and it has no message to say
    messages = {task.id: truth(task) for task in tasks[1:3]}
    with pytest.raises(KeyError):
        played(tmp_path, [last, *tasks[1:3]], Reciter(messages), one_by_one)
    assert set(play.read(tmp_path / TRAJECTORIES)) == {tasks[1].id, tasks[2].id}


def test_tokens_and_mask_are_those_of_the_text(tmp_path: Path, tasks: tuple[Task, ...]) -> None:
    (found,) = played(tmp_path, tasks[:1], Reciter({tasks[0].id: truth(tasks[0])}))
    assert TOKENIZER.decode(found["token_ids"]).removesuffix("<|im_end|>") == found["text"]
    assert (len(found["mask"]), sum(found["mask"])) == (found["tokens"], found["sampled_tokens"])


KEPT = b'{"task_id": "a", "type": "base", "passed": true, "progress": 1.0, "finish": "finished"}\n'


@pytest.mark.parametrize(
    "line",
    [b"no json\n", b"[1]\n", b'{"task_id": "a"}\n', b"\xff\xfe\n", b"[" * 100_000 + b"\n"]
    + [
        KEPT.replace(whole, other)
        for whole, other in ((b'"a"', b'["a"]'), (b"true", b"3"), (b"1.0", b'"x"'), (b'"base"', b"null"))
    ],
)
def test_a_line_that_is_no_trajectory_is_named(tmp_path: Path, line: bytes) -> None:
    (tmp_path / TRAJECTORIES).write_bytes(line)
    with pytest.raises(TrajectoryError, match=TRAJECTORIES):
        play.read(tmp_path / TRAJECTORIES)


def test_the_result_counts_what_was_played(tmp_path: Path, tasks: tuple[Task, ...]) -> None:
    messages = {task.id: truth(task) if place % 2 else silence(task) for place, task in enumerate(tasks)}
    found = result.assemble(played(tmp_path, tasks, Reciter(messages)), {"suite": "bfcl_v3"})
    assert (found["overall"]["passed"], found["overall"]["count"]) == (4, 8)
    assert found["ends"] == {"finished": 8, "length": 0}
    assert sum(score["count"] for score in found["by_type"].values()) == 8
    json.dumps(found)
