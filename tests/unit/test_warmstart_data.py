"""What the tiny policy is trained on: demonstrations, their text and tokens, and the batches they come in."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from rods.config import ModelConfig, RewardConfig, SimulationConfig
from rods.model_path import resolve
from rods.reward import build
from rods.rollout.chat import Chat, load_tokenizer
from rods.simulation.functions import documentation
from rods.simulation.session import Session
from rods.tasks.bfcl import RESTORED_QUERY
from rods.tasks.model import Task, TaskType
from rods.tasks.phrasebook import OPERATIONS
from rods.tasks.scripted import generate
from rods.tasks.scripted_states import CLASSES
from rods.warmstart.batches import (
    Row,
    alternate,
    batches,
    copy_drills,
    encode,
    episodes,
    take,
)
from rods.warmstart.demonstrations import ANSWERS, DONE, Demonstration, solved
from rods.warmstart.tokenizer import RESERVED, fit
from rods.warmstart.transcript import END, SYSTEM_PROMPT, call_text, pieces

TINY = resolve("shipped/tiny")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(f"{TINY}/tokenizer.json")


def scripted(count: int, seed: int) -> list[Task]:
    rng = random.Random(seed)
    return [generate(rng) for _ in range(count)]


def reward(task: Task, shown: Demonstration) -> float:
    """What a policy that imitates the demonstration earns."""
    session = Session(task, SimulationConfig(), RewardConfig())
    for turn in shown.turns:
        for call in turn.calls:
            session.advance(call_text(call))
        session.advance(turn.answer)
    return build("progress")(session.outcome())


def test_solved_demonstrations_earn_everything() -> None:
    assert all(reward(task, solved(task)) == 1.0 for task in scripted(60, 0))


def test_tools_and_results_shown_are_the_simulations_own() -> None:
    for task in scripted(60, 3):
        shown, session = solved(task), Session(task, SimulationConfig(), RewardConfig())
        assert list(shown.tools) == list(session.tools)
        for turn in shown.turns:
            for call, result in zip(turn.calls, turn.results, strict=True):
                assert session.advance(call_text(call)).observations == (result,)
            assert list(session.advance(turn.answer).restored) == [
                tool for later in shown.turns[shown.turns.index(turn) + 1 :][:1] for tool in later.restored
            ]


def test_what_is_said_without_a_call_tells_what_is_missing() -> None:
    for task in scripted(60, 4):
        for turn in solved(task).turns:
            assert turn.answer == (DONE if turn.calls else ANSWERS[task.type])


def test_text_is_cut_where_the_assistant_speaks() -> None:
    task = next(task for task in scripted(50, 5) if task.type is TaskType.MISS_FUNC)
    parts = list(pieces(solved(task)))
    spoken = [part.text for part in parts if part.spoken]
    assert all(text.endswith(END) for text in spoken)
    calls = [call for turn in task.turns for call in turn.calls]
    answers = {f"{answer}{END}" for answer in (DONE, *ANSWERS.values())}
    assert [text for text in spoken if text not in answers] == [f"{call_text(call)}{END}" for call in calls]
    assert json.loads(call_text(calls[0]).split("\n")[1]) == calls[0].to_json()
    given = "".join(part.text for part in parts if not part.spoken)
    assert f"New tools: {task.withheld[0]}\n{RESTORED_QUERY}" in given
    assert f" {task.withheld[0]} " not in given.partition(END)[0] + " "


def test_training_sees_exactly_the_tokens_of_a_rollout(tokenizer: Tokenizer) -> None:
    loaded = load_tokenizer(TINY)
    chat = Chat(loaded, ModelConfig(system_prompt=SYSTEM_PROMPT, tool_names_in_prompt=True))
    for task in scripted(60, 6):
        shown = solved(task)
        ids: list[int] = []
        for number, turn in enumerate(shown.turns):
            says = SimpleNamespace(
                observations=(), query=turn.query, restored=turn.restored, tools=shown.tools
            )
            ids += chat.after(True, says) if number else chat.opening(says)
            for call, result in zip(turn.calls, turn.results, strict=True):
                ids += loaded.encode(call_text(call) + END, add_special_tokens=False)
                ids += chat.after(True, SimpleNamespace(observations=(result,), query=None, restored=()))
            ids += loaded.encode(turn.answer + END, add_special_tokens=False)
        assert tuple(ids) == encode(tokenizer, shown, 0.1).ids


def test_training_uses_the_prompt_of_the_shipped_configuration() -> None:
    shipped = yaml.safe_load((Path(__file__).parents[2] / "conf/model/tiny.yaml").read_text())
    assert shipped["system_prompt"] == SYSTEM_PROMPT
    assert (shipped["tools_in_prompt"], shipped["tool_names_in_prompt"]) == (False, True)


def test_every_episode_survives_the_tokenizer(tokenizer: Tokenizer) -> None:
    for task in scripted(100, 7):
        for piece in pieces(solved(task)):
            ids = tokenizer.encode(piece.text).ids
            assert tokenizer.decode(ids, skip_special_tokens=False) == piece.text
            assert (ids[-1] == tokenizer.token_to_id(END)) == piece.spoken


def test_every_function_is_one_token_in_the_list_and_in_a_call(tokenizer: Tokenizer) -> None:
    for name in documentation(CLASSES):
        assert len(tokenizer.encode(f" {name}").ids) == 1
    for name in {name for entry in OPERATIONS.values() for name, _ in entry.pattern}:
        assert len(tokenizer.encode(f'{{"name": "{name}", "arguments": {{').ids) == 3


@given(st.text(max_size=60))
def test_any_text_survives_the_tokenizer(text: str) -> None:
    shipped = Tokenizer.from_file(f"{TINY}/tokenizer.json")
    assert shipped.decode(shipped.encode(text).ids, skip_special_tokens=False) == text


def test_a_tokenizer_is_fixed_by_its_seed() -> None:
    first, again, other = (fit(seed, vocabulary=400, episodes=40) for seed in (0, 0, 1))
    assert first.to_str() == again.to_str() != other.to_str()
    assert first.get_vocab_size() == 400


def test_digits_stand_alone_and_extensions_are_whole(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("plan42.txt").tokens[-3:] == ["4", "2", ".txt"]
    assert tokenizer.encode("report_task.md").tokens[-2:] == ["_task", ".md"]


def test_what_others_say_has_a_weight_of_its_own(tokenizer: Tokenizer) -> None:
    shown = solved(scripted(1, 8)[0])
    row = encode(tokenizer, shown, 0.25)
    weights = [
        1.0 if piece.spoken else 0.25 for piece in pieces(shown) for _ in tokenizer.encode(piece.text).ids
    ]
    assert list(row.weights) == weights
    assert {1.0, 0.25} == set(weights)


def test_drills_say_a_string_twice_and_ask_for_the_second_time() -> None:
    for row in islice(copy_drills(1024, random.Random(0)), 50):
        asked = sum(weight > 0 for weight in row.weights)
        length = asked + 1
        assert len(row.ids) == len(row.weights)
        assert row.ids[:length] == row.ids[-length:]
        assert row.weights[-asked:] == (1.0,) * asked
        assert min(row.ids) >= RESERVED


def test_streams_take_turns_by_tokens() -> None:
    def stream(token: int) -> Iterator[Row]:
        while True:
            yield Row((token,) * 10, (1.0,) * 10)

    mingled = alternate(stream(1), stream(2), 25)
    assert [row.ids[0] for row in islice(mingled, 9)] == [1, 1, 1, 2, 2, 2, 1, 1, 1]


@given(st.lists(st.integers(1, 60), min_size=30, max_size=60), st.integers(20, 80))
def test_batches_hold_every_row_once_and_keep_their_size(lengths: list[int], tokens: int) -> None:
    rows = [Row((index + 1,) * length, (0.5,) * length) for index, length in enumerate(lengths)]
    supply = iter(rows)

    def stream() -> Iterator[Row]:
        return supply

    drawn = take(iter(rows), 8 * tokens) if sum(lengths) >= 8 * tokens else []
    if not drawn:
        return
    found: list[int] = []
    ready = batches(stream, tokens, random.Random(0))
    while len(found) < len(drawn):
        batch = next(ready)
        assert batch.ids.shape == batch.weights.shape
        assert batch.ids.numel() <= tokens or batch.ids.shape[0] == 1
        assert ((batch.weights > 0) == (batch.ids > 0)).all()
        found += [int(row[0]) for row in batch.ids]
        for row in batch.ids:
            assert int((row > 0).sum()) == lengths[int(row[0]) - 1]
    assert sorted(found) == list(range(1, len(drawn) + 1))


def test_episodes_have_the_requests_they_are_asked_for(tokenizer: Tokenizer) -> None:
    def spoken(requests: tuple[int, ...]) -> set[int]:
        """Answers that close a turn, counted per episode; a turn that withholds something has one too."""
        rows = islice(episodes(tokenizer, random.Random(0), requests, 0.1), 60)
        closing = tokenizer.encode(f"{DONE}{END}").ids
        return {str(row.ids).count(str(closing)[1:-1]) for row in rows}

    assert spoken((1,)) == {1}
    assert spoken((1, 3)) == {1, 3}
