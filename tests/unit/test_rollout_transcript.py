"""Token in, token out: odd tokens are kept as they were sampled, and an engine that answers nonsense is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import random_policy

from rods.config import ModelConfig, RewardConfig, RolloutConfig, SimulationConfig
from rods.rollout.chat import Chat
from rods.rollout.engine import Completion, Request, Sampling
from rods.rollout.episode import Rollout, collect
from rods.rollout.transcript import Transcript, TranscriptError
from rods.tasks.model import Call, Task, TaskType, Turn

END = 2
TOKENIZER = random_policy.tokenizer()
TREE = {"root": {"home": {"type": "directory", "contents": {"a": {"type": "file", "content": "one"}}}}}
LOOK = Turn("Show a.", (Call("cat", {"file_name": "a"}),))


def one_turn(*turns: Turn) -> Task:
    return Task("t", TaskType.BASE, ("GorillaFileSystem",), {"GorillaFileSystem": TREE}, turns or (LOOK,))


class TokenEngine:
    """Answers every request with the same tokens."""

    name = "tokens"
    max_length = 900
    version = 0

    def __init__(
        self, token_ids: tuple[int, ...], change: Callable[[Completion], Completion] | None = None
    ) -> None:
        self.requests: list[Request] = []
        self._token_ids = token_ids
        self._change = change or (lambda message: message)
        self._queue: list[Request] = []

    def submit(self, request: Request) -> None:
        self.requests.append(request)
        self._queue.append(request)

    def step(self) -> list[Completion]:
        messages = [
            Completion(r.id, self._token_ids, (-1.0,) * len(self._token_ids), self._token_ids[-1] == END)
            for r in self._queue
        ]
        self._queue.clear()
        return [self._change(message) for message in messages]


def play(engine: Any, task: Task, **simulation: Any) -> Rollout:
    chat = Chat(TOKENIZER, ModelConfig(system_prompt="Use the tools."))
    sampling = RolloutConfig(max_message_tokens=200)
    ((rollout,),) = collect(
        engine, chat, [task], 1, sampling, SimulationConfig(**simulation), RewardConfig(), 0
    )
    return rollout


def letters(text: str) -> tuple[int, ...]:
    """One token per byte: not what the tokenizer makes of the markup, which has tokens of its own."""
    return tuple(
        TOKENIZER.convert_tokens_to_ids([{" ": "Ġ", "\n": "Ċ"}.get(letter, letter) for letter in text])
    )


def test_tokens_that_no_tokenizer_would_choose_stay_as_they_were_sampled() -> None:
    odd = (*letters('<tool_call>\n{"name": "cat", "arguments": {"file_name": "a"}}\n</tool_call>'), END)
    text = TOKENIZER.decode(odd[:-1], skip_special_tokens=False)
    again = tuple(TOKENIZER.encode(text, add_special_tokens=False))
    assert again != odd[:-1]
    assert len(again) < len(odd) - 1
    engine = TokenEngine(odd)
    rollout = play(engine, one_turn(), step_limit=1)
    assert rollout.outcome.calls == 1  # read as the call that its text is
    sampled = tuple(token for token, mark in zip(rollout.token_ids, rollout.mask, strict=True) if mark)
    assert sampled == odd * len(engine.requests)
    assert len(engine.requests) == 2
    for request in engine.requests[1:]:
        assert rollout.token_ids[: len(request.prompt_ids)] == request.prompt_ids


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda m: replace(m, token_ids=(), logprobs=()), "1 to 200 sampled tokens, found 0"),
        (lambda m: replace(m, token_ids=(9,) * 201, logprobs=(-1.0,) * 201), "found 201"),
        (lambda m: replace(m, logprobs=m.logprobs[:-1]), "3 log-probabilities, found 2"),
        (lambda m: replace(m, token_ids=(9, END, END)), "nowhere else"),
        (lambda m: replace(m, stopped=False), "nowhere else"),
        (lambda m: replace(m, token_ids=(9, 9, 9)), "nowhere else"),
        (lambda m: replace(m, logprobs=(-1.0, math.nan, -1.0)), "at most 0, found nan"),
        (lambda m: replace(m, logprobs=(-1.0, -math.inf, -1.0)), "at most 0, found -inf"),
        (lambda m: replace(m, logprobs=(-1.0, 0.5, -1.0)), r"at most 0, found 0\.5"),
    ],
)
def test_an_engine_that_answers_nonsense_is_refused(
    change: Callable[[Completion], Completion], complaint: str
) -> None:
    with pytest.raises(TranscriptError, match=f"episode t/0, message 0: expected .*{complaint}"):
        play(TokenEngine((9, 9, END), change), one_turn())


def test_a_transcript_that_was_encoded_again_is_refused() -> None:
    transcript = Transcript("t/0", END)
    transcript.read([5, 6])
    draw = Sampling(1.0, 1.0, 10, 0)
    transcript.write(Request("t/0", (5, 6), draw), Completion("t/0", (7, END), (-1.0, -1.0), True), 0)
    transcript.verify()
    with pytest.raises(TranscriptError, match="a prompt of exactly the transcript's tokens"):
        transcript.write(Request("t/0", (5, 6, 7), draw), Completion("t/0", (7, END), (-1.0, -1.0), True), 0)
    transcript.token_ids[2] = 8
    with pytest.raises(TranscriptError, match="encoded again"):
        transcript.verify()


def test_an_episode_that_uses_up_its_steps_ends_and_counts_every_turn() -> None:
    call = '<tool_call>\n{"name": "ls", "arguments": {}}\n</tool_call>'
    engine = TokenEngine((*TOKENIZER.encode(call, add_special_tokens=False), END))
    rollout = play(engine, one_turn(LOOK, LOOK, LOOK), step_limit=2, at_limit="force_quit")
    assert (rollout.finish, len(engine.requests)) == ("finished", 3)
    assert (len(rollout.outcome.verdicts), rollout.outcome.turns, rollout.reward) == (1, 3, 0.0)


@pytest.mark.parametrize(
    ("call", "fault", "code"),
    [
        ("{", "unreadable", -3),
        ('{"name": "fly", "arguments": {}}', "unknown_function", -2),
        ('{"name": "cat", "arguments": {"path": "a"}}', "bad_arguments", -2),
        ('{"name": "cat", "arguments": {"file_name": "b"}}', "simulator", -2),
    ],
)
def test_a_failed_call_is_counted_by_its_kind(call: str, fault: str, code: int) -> None:
    text = f"<tool_call>\n{call}\n</tool_call>"
    engine = TokenEngine((*TOKENIZER.encode(text, add_special_tokens=False), END))
    outcome = play(engine, one_turn(), step_limit=1, at_limit="force_quit").outcome
    assert outcome.faults == (fault, fault)
    assert outcome.codes[:2] == (code, code)
