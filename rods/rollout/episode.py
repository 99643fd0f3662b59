"""Rollouts: dialogues between the policy and the simulation, kept as the tokens the policy saw and sampled.

Every episode advances on its own: while one waits for its turn in the batch, another's calls run. A
transcript only ever grows at its end, so the learner trains on exactly the tokens that were sampled.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rods import reward as rewards
from rods.config import RewardConfig, RolloutConfig, SimulationConfig
from rods.rollout.chat import Chat
from rods.rollout.engine import Completion, Engine, Request, Sampling
from rods.rollout.transcript import Transcript
from rods.simulation.session import Outcome, Session
from rods.tasks.model import Task

Finish = Literal["finished", "length"]


@dataclass(frozen=True)
class Rollout:
    """One episode, ready for the learner.

    Attributes:
        task_id: of its task.
        index: its place in the task's group, 0…K-1.
        token_ids: the whole transcript.
        mask: 1 where the policy sampled the token, 0 for prompts, tool results and templates.
        logprobs: the engine's, at temperature 1, of each sampled token; 0.0 where the mask is 0.
        turns: the user turn, from 0, in which each token was sampled; 0 where the mask is 0.
        reward: what the episode earned.
        outcome: the simulation's verdicts, from which the reward came.
        policy_version: of the weights that sampled it.
        finish: "finished" when the dialogue ended, "length" when no room was left for the next message. An
            episode whose opening already leaves no room has the opening's first tokens and a mask of zeros.
    """

    task_id: str
    index: int
    token_ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float, ...]
    turns: tuple[int, ...]
    reward: float
    outcome: Outcome
    policy_version: int
    finish: Finish


def collect(
    engine: Engine,
    chat: Chat,
    tasks: Sequence[Task],
    group_size: int,
    sampling: RolloutConfig,
    simulation: SimulationConfig,
    reward: RewardConfig,
    seed: int,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[list[Rollout]]:
    """Play each task `group_size` times; arguments as `episodes`.

    Args:
        on_progress: called with (episodes done, episodes in all) after each one.

    Returns:
        one group per task, in the order of `tasks`; rollouts in the order of their index.
    """
    total = len(tasks) * group_size
    done: dict[tuple[str, int], Rollout] = {}
    for rollout in episodes(engine, chat, tasks, group_size, sampling, simulation, reward, seed):
        done[rollout.task_id, rollout.index] = rollout
        if on_progress is not None:
            on_progress(len(done), total)
    return [[done[task.id, index] for index in range(group_size)] for task in tasks]


def episodes(
    engine: Engine,
    chat: Chat,
    tasks: Sequence[Task],
    group_size: int,
    sampling: RolloutConfig,
    simulation: SimulationConfig,
    reward: RewardConfig,
    seed: int,
) -> Iterator[Rollout]:
    """Play each task `group_size` times and give each episode as it ends.

    Args:
        tasks: with distinct ids (a sampling seed derives from the id).
        sampling: temperature (0 = greedy), top_p, max_message_tokens, max_episode_tokens, max_concurrent.
        seed: with the task id, the index and the message's number it fixes each message's draw.
    """
    driver = _Driver(engine, chat, sampling, seed, lambda task: Session(task, simulation, reward))
    score = rewards.build(reward.name)
    waiting = deque((task, index) for task in longest_first(tasks) for index in range(group_size))
    while waiting or driver.live:
        while waiting and len(driver.live) < sampling.max_concurrent:
            driver.start(*waiting.popleft())
        for episode in driver.advance():
            yield episode.rollout(score, engine.version)


def longest_first(tasks: Sequence[Task]) -> list[Task]:
    """In the order of the messages that their ground truth takes, one a call, so that the batch is full to the end."""
    return sorted(tasks, key=lambda task: -sum(len(turn.calls) + 1 for turn in task.turns))


def message_seed(seed: int, task_id: str, index: int, message: int) -> int:
    """The sampling seed (63 bits) of one message, the same on every machine."""
    digest = hashlib.blake2b(f"{seed}\0{task_id}\0{index}\0{message}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


@dataclass
class _Episode:
    """An episode under way."""

    task: Task
    index: int
    session: Session
    transcript: Transcript
    finish: Finish = "finished"
    asked: Request | None = None

    def write(self, message: Completion) -> None:
        """Take the message that the policy was asked for."""
        assert self.asked is not None
        self.transcript.write(self.asked, message, self.session.turn)

    def rollout(self, score: Callable[[Outcome], float], version: int) -> Rollout:
        """The finished episode as a value."""
        outcome = self.session.outcome()
        self.transcript.verify()
        return Rollout(
            task_id=self.task.id,
            index=self.index,
            token_ids=tuple(self.transcript.token_ids),
            mask=tuple(self.transcript.mask),
            logprobs=tuple(self.transcript.logprobs),
            turns=tuple(self.transcript.turns),
            reward=score(outcome),
            outcome=outcome,
            policy_version=version,
            finish=self.finish,
        )


class _Driver:
    """Moves episodes between the engine, which writes messages, and their sessions, which answer them."""

    def __init__(
        self,
        engine: Engine,
        chat: Chat,
        sampling: RolloutConfig,
        seed: int,
        open_session: Callable[[Task], Session],
    ) -> None:
        self.live: dict[str, _Episode] = {}
        self._engine = engine
        self._chat = chat
        self._sampling = sampling
        self._seed = seed
        self._open_session = open_session
        self._ended: list[_Episode] = []

    def start(self, task: Task, index: int) -> None:
        """Open an episode and ask for its first message."""
        name = f"{task.id}/{index}"
        episode = _Episode(task, index, self._open_session(task), Transcript(name, self._chat.end_token))
        self.live[name] = episode
        self._ask(episode, self._chat.opening(episode.session))

    def advance(self) -> list[_Episode]:
        """One step of the engine and what follows from it; returns the episodes that ended."""
        for message in self._engine.step():
            episode = self.live[message.id]
            episode.write(message)
            reply = episode.session.advance(self._chat.text(message.token_ids))
            if reply.finished:
                self._end(episode)
            else:
                self._ask(episode, self._chat.after(message.stopped, reply))
        ended, self._ended = self._ended, []
        return ended

    def _ask(self, episode: _Episode, token_ids: tuple[int, ...]) -> None:
        """Show the policy `token_ids` and ask for a message; without room for a whole one, abandon."""
        transcript = episode.transcript
        limit = min(self._engine.max_length, self._sampling.max_episode_tokens or self._engine.max_length)
        room = limit - len(transcript.token_ids) - len(token_ids)
        if room < self._sampling.max_message_tokens:
            self._abandon(episode, token_ids)
            return
        transcript.read(token_ids)
        draw = Sampling(
            temperature=self._sampling.temperature,
            top_p=self._sampling.top_p,
            max_tokens=self._sampling.max_message_tokens,
            seed=message_seed(self._seed, episode.task.id, episode.index, transcript.messages),
        )
        episode.asked = Request(transcript.name, tuple(transcript.token_ids), draw)
        self._engine.submit(episode.asked)

    def _abandon(self, episode: _Episode, token_ids: tuple[int, ...]) -> None:
        if not episode.transcript.messages:
            episode.transcript.read(token_ids[: self._engine.max_length])
        episode.session.abandon()
        episode.finish = "length"
        self._end(episode)

    def _end(self, episode: _Episode) -> None:
        del self.live[episode.transcript.name]
        self._ended.append(episode)
