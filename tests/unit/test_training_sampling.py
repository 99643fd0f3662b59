"""A step's rollouts: when they are drawn, with which weights, what is drawn again, and what a step does with them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import random_policy
import torch

from rods.config import Config, ModelConfig, RewardConfig, RolloutConfig, SimulationConfig, TrainingConfig
from rods.config.stages import StageConfig, within
from rods.curriculum.events import EvaluationMode
from rods.rollout.chat import Chat
from rods.rollout.engine import Completion, Request
from rods.rollout.episode import message_seed
from rods.simulation.session import FAULTS
from rods.tasks.model import Call, Task, TaskType, Turn
from rods.training.heldout import Exam
from rods.training.patience import AbandonedError
from rods.training.sampling import Draw, Sampler, StalePolicyError
from rods.training.step import PolicyMismatchError, Stepper

TOKENIZER = random_policy.tokenizer()
CHAT = Chat(TOKENIZER, ModelConfig())
TREE = {"root": {"home": {"type": "directory", "contents": {}}}}
CALL = '<tool_call>\n{"name": "mkdir", "arguments": {"dir_name": "b"}}\n</tool_call>'


def task(name: str, kind: TaskType = TaskType.BASE) -> Task:
    turns = (Turn("Make b.", (Call("mkdir", {"dir_name": "b"}),)),)
    return Task(name, kind, ("GorillaFileSystem",), {"GorillaFileSystem": TREE}, turns)


def config(ahead: bool = False, resamples: int = 0) -> Config:
    return Config(
        training=TrainingConfig(group_size=2, max_resamples=resamples, parity_tolerance=1e-3),
        rollout=RolloutConfig(max_message_tokens=120, one_step_off=ahead),
        model=ModelConfig(max_length=900),
        reward=RewardConfig(),
        simulation=SimulationConfig(step_limit=1),
    )


class SeededEngine:
    """Makes the directory when `does(seed)` says so, and then answers; remembers seeds and versions."""

    name = "seeded"
    max_length = 900

    def __init__(self, does: Callable[[int], bool], gate: threading.Event | None = None) -> None:
        self.version = 0
        self.asked: list[tuple[int, Request]] = []
        self.closed = False
        self._does = does
        self._gate = gate
        self._queue: list[Request] = []

    def submit(self, request: Request) -> None:
        self.asked.append((self.version, request))
        self._queue.append(request)

    def step(self) -> list[Completion]:
        assert not self.closed
        if self._gate is not None:
            assert self._gate.wait(10)
        request = self._queue.pop(0)
        first = not CHAT.text(request.prompt_ids).endswith(
            "</tool_response><|im_end|>\n<|im_start|>assistant\n"
        )
        text = CALL if first and self._does(request.sampling.seed) else "Done."
        ids = (*TOKENIZER.encode(text, add_special_tokens=False), CHAT.end_token)
        return [Completion(request.id, ids, (-0.5,) * len(ids), True)]

    def update_weights(self, weights: Any, version: int) -> None:
        assert not self._queue, "requests are in flight"
        self.version = version

    def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        return [[-1.0] * (len(sequence) - 1) for sequence in sequences]

    def sleep(self) -> None:
        """Nothing to give back."""

    def wake(self) -> None:
        """Nothing to take."""

    def close(self) -> None:
        self.closed = True


class CountingLearner:
    """Remembers what it was given."""

    rank = 0
    training = TrainingConfig()
    critic = None

    def __init__(self, wrong: float = 0.0, during: Callable[[], None] = lambda: None) -> None:
        self.given: list[list[Any]] = []
        self._wrong = wrong
        self._during = during

    def update(
        self, rollouts: Sequence[Any], advantages: Sequence[torch.Tensor], on_progress: Any
    ) -> dict[str, float]:
        self._during()
        self.given.append(list(rollouts))
        return {"loss": 0.0}

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        yield from ()

    def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        return [[-1.0 + self._wrong] * (len(sequence) - 1) for sequence in sequences]


def silent(*_: Any) -> None:
    """Nobody follows."""


def rewards(groups: Sequence[Sequence[Any]]) -> list[list[float]]:
    return [[rollout.reward for rollout in group] for group in groups]


def seed_of(name: str, index: int, step: int, attempt: int = 0) -> int:
    """The seed of an episode's first message; fixed, so that runs can be repeated."""
    return message_seed(step + attempt * 2**96, name, index, 0)


def test_every_step_draws_with_seeds_of_its_own() -> None:
    engine = SeededEngine(lambda seed: seed == seed_of("x", 1, 1))
    draw = Sampler(config(), engine, CHAT).take([task("x")], 1, silent)
    assert rewards(draw.observed) == [[0.0, 1.0]]
    assert draw.trained == draw.observed
    assert (draw.drawn_again, draw.version) == (0, 0)
    assert draw.generated == sum(sum(rollout.mask) for rollout in draw.observed[0])
    engine.version = 1
    assert rewards(Sampler(config(), engine, CHAT).take([task("x")], 2, silent).observed) == [[0.0, 0.0]]


def again(resamples: int, lucky: set[int]) -> Draw:
    engine = SeededEngine(lambda seed: seed in lucky)
    return Sampler(config(resamples=resamples), engine, CHAT).take(
        [task("x"), task("y"), task("z")], 1, silent
    )


def test_groups_without_variance_are_drawn_again_and_the_curriculum_sees_the_first_draw() -> None:
    lucky = {seed_of("y", 0, 1), seed_of("x", 1, 1, attempt=1), seed_of("z", 0, 1, attempt=2)}
    draw = again(5, lucky)
    assert rewards(draw.observed) == [[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]
    assert rewards(draw.trained) == [[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]
    assert draw.drawn_again == 3  # x and z, then z
    assert draw.generated > sum(sum(r.mask) for group in [*draw.observed, *draw.trained] for r in group) / 2


@pytest.mark.parametrize(
    ("most", "trained"), [(0, [[0, 0], [0, 0]]), (1, [[0, 1], [0, 0]]), (2, [[0, 1], [1, 0]])]
)
def test_no_more_are_drawn_again_than_allowed(most: int, trained: list[list[float]]) -> None:
    lucky = {seed_of("x", 1, 1, attempt=1), seed_of("y", 0, 1, attempt=1), seed_of("y", 0, 1, attempt=2)}
    engine = SeededEngine(lambda seed: seed in lucky)
    draw = Sampler(config(resamples=most), engine, CHAT).take([task("x"), task("y")], 1, silent)
    assert rewards(draw.trained) == trained
    assert draw.drawn_again == most


def test_hopeless_groups_use_up_the_allowance_and_no_more() -> None:
    draw = again(7, set())
    assert (draw.drawn_again, rewards(draw.trained)) == (7, [[0.0, 0.0]] * 3)


def test_rollouts_are_drawn_while_the_update_runs_with_the_weights_of_the_step_before() -> None:
    gate = threading.Event()
    gate.set()
    engine = SeededEngine(lambda seed: seed % 2 == 0, gate)
    in_flight: list[int] = []

    def during() -> None:
        gate.set()
        in_flight.append(len(engine.asked))

    learner: Any = CountingLearner(during=during)
    stepper = Stepper(config(ahead=True), learner, engine, CHAT)
    tasks = [[task(f"{name}{step}") for name in "xy"] for step in range(4)]
    results = []
    for step in (1, 2, 3):
        upcoming = tasks[step] if step < 3 else []
        results.append(stepper.run(tasks[step - 1], step, silent, silent, upcoming))
    assert [result.metrics["policy_lag"] for result in results] == [0, 1, 1]
    assert [rollout.policy_version for given in learner.given for rollout in given] == [0] * 8 + [1] * 4
    assert [group[0].task_id for result in results for group in result.groups] == [
        "x0",
        "y0",
        "x1",
        "y1",
        "x2",
        "y2",
    ]
    assert engine.version == 3
    stepper.close()


def test_a_stage_draws_by_its_own_settings_and_is_evaluated_by_the_runs() -> None:
    engine = SeededEngine(lambda seed: True)
    stepper = Stepper(config(), CountingLearner(), engine, CHAT)  # type: ignore[arg-type]
    ((whole, _),) = stepper.run([task("x")], 1, silent, silent).groups
    assert (whole.finish, whole.reward) == ("finished", 1.0)
    room = len(engine.asked[0][1].prompt_ids) + 120  # for one message, not for two
    stepper.use(within(config(), StageConfig("format", reward="format", max_episode_tokens=room)))
    ((short, _),) = stepper.run([task("x")], 2, silent, silent).groups
    assert (short.finish, short.reward) == ("length", 2.0)
    exam = Exam("heldout", EvaluationMode.GREEDY, step=2, epoch=1)
    assert stepper.evaluate([task("h")], exam, silent).mean == 1.0
    stepper.close()


def test_a_wish_to_leave_is_heard_before_any_episode_has_ended() -> None:
    engine, told = SeededEngine(lambda seed: True), []

    def ask(done: int, total: int) -> None:
        told.append((done, total))
        if len(told) == 3:
            raise AbandonedError("asked to stop")

    with pytest.raises(AbandonedError):
        Sampler(config(), engine, CHAT).take([task("x")], 1, ask)
    assert told == [(0, 2)] * 3


def test_the_same_rollouts_whether_drawn_ahead_or_not() -> None:
    drawn = []
    for ahead in (False, True):
        engine = SeededEngine(lambda seed: seed % 2 == 0)
        stepper = Stepper(config(ahead=ahead), CountingLearner(), engine, CHAT)  # type: ignore[arg-type]
        groups = [stepper.run([task("x")], 1, silent, silent, [task("y")]).groups]
        groups.append(stepper.run([task("y")], 2, silent, silent).groups)
        drawn.append([[[replace(r, policy_version=0) for r in group] for group in step] for step in groups])
        stepper.close()
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(("step", "name", "asked"), [(1, "x", 2), (2, "x", 4), (1, "y", 4)])
def test_what_was_begun_for_another_step_or_other_tasks_is_thrown_away(
    step: int, name: str, asked: int
) -> None:
    engine = SeededEngine(lambda seed: False)
    sampler = Sampler(config(ahead=True), engine, CHAT)
    sampler.begin([task("x")], 1)
    sampler.wait(silent)
    engine.version = step - 1
    draw = sampler.take([task(name)], step, silent)
    assert [rollout.task_id for rollout in draw.observed[0]] == [name] * 2
    assert (draw.version, len(engine.asked)) == (step - 1, asked)
    sampler.close()


def test_a_failure_of_what_was_drawn_ahead_ends_the_step() -> None:
    engine = SeededEngine(lambda seed: 1 // 0 > 0)
    sampler = Sampler(config(ahead=True), engine, CHAT)
    sampler.begin([task("x")], 1)
    with pytest.raises(ZeroDivisionError):
        sampler.wait(silent)
    sampler.close()


def test_close_abandons_what_is_under_way_and_only_then_the_engine_ends() -> None:
    gate = threading.Event()
    engine = SeededEngine(lambda seed: False, gate)
    stepper = Stepper(config(ahead=True), CountingLearner(), engine, CHAT)  # type: ignore[arg-type]
    stepper._sampler.begin([task(str(index)) for index in range(50)], 1)
    gate.set()
    stepper.close()
    assert engine.closed
    assert len(engine.asked) < 100


@pytest.mark.parametrize(("ahead", "version"), [(False, 1), (False, 3), (True, 0), (True, 3)])
def test_rollouts_of_other_weights_are_refused(ahead: bool, version: int) -> None:
    engine = SeededEngine(lambda seed: True)
    engine.version = version
    sampler = Sampler(config(ahead=ahead), engine, CHAT)
    with pytest.raises(StalePolicyError, match=f"the engine holds those after step {version}"):
        sampler.take([task("x")], 3, silent)
    with pytest.raises(StalePolicyError):
        sampler.begin([task("x")], 3)
    assert engine.asked == []


def test_an_engine_that_missed_the_weights_ends_the_run() -> None:
    stepper = Stepper(config(), CountingLearner(wrong=0.01), SeededEngine(lambda seed: True), CHAT)  # type: ignore[arg-type]
    with pytest.raises(PolicyMismatchError, match=r"differ from the learner's by 1\.00e-02"):
        stepper.run([task("x")], 1, silent, silent)


def test_a_step_tells_its_figures() -> None:
    engine = SeededEngine(lambda seed: seed == seed_of("x", 0, 1))
    stepper = Stepper(config(resamples=1), CountingLearner(), engine, CHAT)  # type: ignore[arg-type]
    metrics = stepper.run([task("x"), task("y", TaskType.MISS_FUNC)], 1, silent, silent).metrics
    told = {"reward_mean": 0.25, "reward_base": 0.5, "reward_miss_func": 0.0, "zero_variance": 0.5}
    told |= {"rollouts": 4, "turns": 1.0, "turns_unfinished": 0.0, "cut_short": 0, "tool_calls": 1}
    told |= dict.fromkeys((f"tool_error_{kind}" for kind in FAULTS), 0)
    told |= {"parse_errors": 0, "tool_errors": 0, "groups_drawn_again": 1, "policy_lag": 0, "parity_gap": 0.0}
    assert {name: metrics[name] for name in told} == told
    positive = (
        "generated_tokens",
        "generated_tokens_per_second",
        "length_mean",
        "length_max",
        "sampled_mean",
    )
    times = ("seconds_rollout", "seconds_generation", "seconds_update", "seconds_sync")
    for name in (*positive, *times, "memory_mib", "memory_peak_mib"):
        assert metrics[name] > 0, name
