"""What the tiny policy is trained on: demonstrations, their text and tokens, and the batches they come in."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import islice
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from rods.config import ModelConfig, RewardConfig, SimulationConfig
from rods.model_path import resolve
from rods.reward import build
from rods.rollout.chat import Chat, load_tokenizer
from rods.simulation.session import Session
from rods.tasks.model import Task
from rods.tasks.phrasebook_table import OPERATIONS
from rods.tasks.scripted import generate
from rods.tasks.scripted_world import FileWorld
from rods.warmstart.batches import (
    OTHERS_WEIGHT,
    Row,
    alternate,
    batches,
    copy_drills,
    encode,
    mixed_episodes,
    solved_episodes,
    take,
)
from rods.warmstart.demonstrations import FAULT_RATES, ShownTurn, mixed, solved
from rods.warmstart.tokenizer import RESERVED, fit
from rods.warmstart.transcript import END, SYSTEM_PROMPT, call_text, pieces

TINY = resolve("shipped/tiny")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(f"{TINY}/tokenizer.json")


def scripted(count: int, seed: int) -> list[Task]:
    rng = random.Random(seed)
    return [generate(rng) for _ in range(count)]


def reward(task: Task, turns: tuple[ShownTurn, ...]) -> float:
    """What a policy that imitates the demonstration earns."""
    session = Session(task, SimulationConfig(), RewardConfig())
    for turn in turns:
        for call in turn.calls:
            session.advance(call_text(call))
        session.advance("Done.")
    return build("progress")(session.outcome())


def test_solved_demonstrations_earn_everything() -> None:
    assert all(reward(task, solved(task)) == 1.0 for task in scripted(40, 0))


def test_mixed_demonstrations_earn_something_between() -> None:
    rng = random.Random(1)
    rewards = [reward(task, mixed(task, rng)) for task in scripted(200, 1)]
    assert 0.4 < sum(rewards) / 200 < 0.8
    assert {0.0, 1.0} < set(rewards)


def test_faults_come_at_each_operations_own_rate() -> None:
    assert set(FAULT_RATES) == set(OPERATIONS)
    rng = random.Random(2)
    faulty = {
        kind: sum(mixed(task, rng)[0].calls != task.turns[0].calls for task in tasks) / len(tasks)
        for kind in ("create", "transfer")
        for tasks in [[generate(rng, kind, 1) for _ in range(300)]]
    }
    assert 0.03 < faulty["create"] < 0.14
    assert 0.8 < faulty["transfer"] < 0.94


def test_results_shown_are_the_simulators_own_even_after_faults() -> None:
    rng = random.Random(3)
    for task in scripted(60, 3):
        world = FileWorld.open(task.initial_state)
        for turn in mixed(task, rng):
            assert [world.execute(call) for call in turn.calls] == list(turn.results)


def test_every_operation_can_go_wrong_without_crashing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rods.warmstart.demonstrations.FAULT_RATES", dict.fromkeys(OPERATIONS, 1.0))
    rng = random.Random(4)
    for task in scripted(150, 4):
        for shown, turn in zip(mixed(task, rng), task.turns, strict=True):
            assert shown.calls != turn.calls
            assert shown.query == turn.query


def test_text_is_cut_where_the_assistant_speaks() -> None:
    task = scripted(1, 5)[0]
    parts = list(pieces(solved(task)))
    spoken = [part.text for part in parts if part.spoken]
    assert all(text.endswith(END) for text in spoken)
    calls = [call for turn in task.turns for call in turn.calls]
    assert [text for text in spoken if text != f"Done.{END}"] == [f"{call_text(call)}{END}" for call in calls]
    assert json.loads(call_text(calls[0]).split("\n")[1]) == calls[0].to_json()


def test_training_sees_exactly_the_tokens_of_a_rollout(tokenizer: Tokenizer) -> None:
    rng = random.Random(6)
    loaded = load_tokenizer(TINY)
    chat = Chat(loaded, ModelConfig(system_prompt=SYSTEM_PROMPT))
    for task in scripted(60, 6):
        turns = mixed(task, rng)
        ids: list[int] = []
        for number, turn in enumerate(turns):
            says = SimpleNamespace(observations=(), query=turn.query, restored=(), tools=())
            ids += chat.after(True, says) if number else chat.opening(says)
            for call, result in zip(turn.calls, turn.results, strict=True):
                ids += loaded.encode(call_text(call) + END, add_special_tokens=False)
                ids += chat.after(True, SimpleNamespace(observations=(result,), query=None, restored=()))
            ids += loaded.encode("Done." + END, add_special_tokens=False)
        assert tuple(ids) == encode(tokenizer, turns).ids


def test_every_episode_survives_the_tokenizer(tokenizer: Tokenizer) -> None:
    rng = random.Random(7)
    for task in scripted(100, 7):
        for piece in pieces(mixed(task, rng)):
            ids = tokenizer.encode(piece.text).ids
            assert tokenizer.decode(ids, skip_special_tokens=False) == piece.text
            assert (ids[-1] == tokenizer.token_to_id(END)) == piece.spoken


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


def test_weights_favour_what_the_assistant_says(tokenizer: Tokenizer) -> None:
    row = encode(tokenizer, solved(scripted(1, 8)[0]))
    end = tokenizer.token_to_id(END)
    weight_of_ends = {weight for token, weight in zip(row.ids, row.weights, strict=True) if token == end}
    assert weight_of_ends == {1.0, OTHERS_WEIGHT}
    assert row.weights[0] == OTHERS_WEIGHT
    assert row.weights[-1] == 1.0


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


def test_episode_streams_differ_as_their_names_say(tokenizer: Tokenizer) -> None:
    end = tokenizer.token_to_id(END)
    answer = tokenizer.encode(f"Done.{END}").ids
    one_turn = islice(solved_episodes(tokenizer, random.Random(0), turns=1), 20)
    assert all(row.ids[-len(answer) :] == tuple(answer) for row in one_turn)
    solved_rows = list(islice(solved_episodes(tokenizer, random.Random(1)), 60))
    mixed_rows = list(islice(mixed_episodes(tokenizer, random.Random(1)), 60))
    assert sum(row.ids.count(end) for row in mixed_rows) < sum(row.ids.count(end) for row in solved_rows)
