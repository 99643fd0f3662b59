"""The peer of `benchmarks.training_rollout`: episodes that wait for each other after every message."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from rods.config import Config
from rods.rollout.chat import Chat
from rods.rollout.engine import Completion, Engine, Request, Sampling
from rods.rollout.episode import longest_first, message_seed
from rods.rollout.transcript import Transcript
from rods.simulation.session import Session
from rods.tasks.model import Task


class Barrier:
    """Plays episodes with a barrier at the end of every message.

    Args:
        engine, chat, config: as for `rods.rollout.episode.collect`.
        seed: likewise.
    """

    def __init__(self, engine: Engine, chat: Chat, config: Config, seed: int) -> None:
        self._engine, self._chat, self._config, self._seed = engine, chat, config, seed

    def play(self, tasks: Sequence[Task]) -> dict[str, tuple[int, ...]]:
        """All episodes of a step; their tokens by name."""
        config = self._config
        waiting = deque(
            (task, index) for task in longest_first(tasks) for index in range(config.training.group_size)
        )
        live: dict[str, tuple[Task, int, Session, Transcript]] = {}
        texts: dict[str, tuple[int, ...]] = {}
        done: dict[str, tuple[int, ...]] = {}
        while waiting or live:
            while waiting and len(live) < config.rollout.max_concurrent:
                task, index = waiting.popleft()
                session = Session(task, config.simulation, config.reward)
                name = f"{task.id}/{index}"
                live[name] = (task, index, session, Transcript(name, self._chat.end_token))
                texts[name] = self._chat.opening(session)
            texts = self._turn(live, texts, done)
        return done

    def _turn(
        self,
        live: dict[str, tuple[Task, int, Session, Transcript]],
        texts: dict[str, tuple[int, ...]],
        done: dict[str, tuple[int, ...]],
    ) -> dict[str, tuple[int, ...]]:
        """One message of each live episode; only then are they answered."""
        requests = {}
        for name, (task, index, _, transcript) in list(live.items()):
            room = self._engine.max_length - len(transcript.token_ids) - len(texts[name])
            if room < self._config.rollout.max_message_tokens:
                done[name] = tuple(live.pop(name)[3].token_ids)
                continue
            transcript.read(texts[name])
            requests[name] = self._request(task, index, transcript)
            self._engine.submit(requests[name])
        messages: list[Completion] = []
        while len(messages) < len(requests):
            messages += self._engine.step()
        following = {}
        for message in messages:
            _, _, session, transcript = live[message.id]
            transcript.write(requests[message.id], message, session.turn)
            reply = session.advance(self._chat.text(message.token_ids))
            if reply.finished:
                done[message.id] = tuple(transcript.token_ids)
                del live[message.id]
            else:
                following[message.id] = self._chat.after(message.stopped, reply)
        return following

    def _request(self, task: Task, index: int, transcript: Transcript) -> Request:
        rollout = self._config.rollout
        seed = message_seed(self._seed, task.id, index, transcript.messages)
        draw = Sampling(rollout.temperature, rollout.top_p, rollout.max_message_tokens, seed)
        return Request(transcript.name, tuple(transcript.token_ids), draw)
