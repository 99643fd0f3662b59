"""An evaluation on a real engine: what it scores, and that the rollouts after it are those without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import random_policy

from rods import tasks
from rods.config import Config, ModelConfig, RolloutConfig, TasksConfig
from rods.curriculum.events import EvaluationMode
from rods.rollout import engine as engines
from rods.rollout.chat import Chat, load_tokenizer
from rods.rollout.engine import Engine
from rods.rollout.episode import Rollout, collect
from rods.tasks.model import Task, TaskType
from rods.training.heldout import Exam, evaluate, graded

CONFIG = Config(
    model=ModelConfig(max_length=512),
    rollout=RolloutConfig(engine="hf", max_message_tokens=4, max_concurrent=4),
    tasks=TasksConfig(train_count=2, heldout_count=2),
    seed=5,
)
TASKS = tasks.load(CONFIG.tasks)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_policy.save(tmp_path_factory.mktemp("start") / "model")


@pytest.fixture
def engine(folder: Path, tmp_path: Path) -> Iterator[Engine]:
    made = engines.build(folder, CONFIG.model, CONFIG.rollout, CONFIG.seed, tmp_path)
    yield made
    made.close()


def rollouts(engine: Engine, chat: Chat) -> list[list[Rollout]]:
    return collect(engine, chat, TASKS.train, 2, CONFIG.rollout, CONFIG.simulation, CONFIG.reward, 7)


@pytest.mark.parametrize("mode", EvaluationMode)
def test_rollouts_after_an_evaluation_are_those_without_it(
    mode: EvaluationMode, engine: Engine, folder: Path
) -> None:
    chat = Chat(load_tokenizer(folder), CONFIG.model)
    before = rollouts(engine, chat)
    told: list[tuple[int, int]] = []
    found = evaluate(
        CONFIG, engine, chat, TASKS.heldout, Exam("heldout", mode, 3, 2), lambda *now: told.append(now)
    )
    assert rollouts(engine, chat) == before
    assert told[-1] == (2, 2)
    assert (found.step, found.epoch, found.split, found.mode) == (3, 2, "heldout", mode)
    assert list(found.scores) == [task.id for task in TASKS.heldout]


def test_two_evaluations_of_one_policy_are_equal(engine: Engine, folder: Path) -> None:
    chat = Chat(load_tokenizer(folder), CONFIG.model)
    first, second = (
        evaluate(
            CONFIG,
            engine,
            chat,
            TASKS.heldout,
            Exam("heldout", EvaluationMode.SAMPLED, 0, 0),
            lambda *now: None,
        )
        for _ in range(2)
    )
    assert first == second


def test_scores_come_to_means_by_kind_and_type_and_half_a_task_is_not_solved() -> None:
    chosen = [
        Task("a", TaskType.BASE, (), {}, (), kind="view"),
        Task("b", TaskType.BASE, (), {}, (), kind="view"),
        Task("c", TaskType.MISS_FUNC, (), {}, ()),
    ]
    found = graded(
        Exam("validation", EvaluationMode.GREEDY, 1, 1), chosen, {"c": 0.25, "a": 1.0, "b": 0.5, "other": 1.0}
    )
    assert (found.mean, found.accuracy, found.count) == (pytest.approx(1.75 / 3), pytest.approx(1 / 3), 3)
    assert found.by_kind == {"miss_func": 0.25, "view": 0.75}
    assert found.by_type == {"base": 0.75, "miss_func": 0.25}
    assert found.accuracy_by_type == {"base": 0.5, "miss_func": 0.0}
    assert found.scores == {"a": 1.0, "b": 0.5, "c": 0.25}
