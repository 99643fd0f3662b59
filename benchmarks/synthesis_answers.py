"""What a stand-in server answers in `benchmarks.synthesis`: the scripted backend's words to the same questions.

The pipeline's questions depend on its seeds alone, so that a run of it beforehand meets every question of a later run.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rods.config import SynthesisConfig, TasksConfig
from rods.synthesis import prompting
from rods.synthesis.agents import AnswerT
from rods.synthesis.errors import NoPatternFailure
from rods.synthesis.pipeline import Pipeline
from rods.synthesis.scripted import ScriptedBackend
from rods.tasks import load
from rods.tasks.model import Task
from tests.llm_server import Reply, completion, error


class _Recorder(ScriptedBackend):
    """Writes down what it answers to what, and how long the pipeline works between two questions."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[str, str] = {}
        self.stretches: list[float] = []
        self._answered = 0.0

    def worked(self) -> None:
        """A stretch of the pipeline's work is over."""
        self.stretches.append(time.thread_time() - self._answered)

    def works(self) -> None:
        """One begins."""
        self._answered = time.thread_time()

    async def ask(
        self, agent: str, inputs: Mapping[str, Any], output: type[AnswerT], rng_seed: int
    ) -> AnswerT:
        self.worked()
        answer = await super().ask(agent, inputs, output, rng_seed)
        question = _question(agent, rng_seed % 2**31, prompting.render(agent, inputs))
        self.answers[question] = answer.model_dump_json()
        self.works()
        return answer


@dataclass(frozen=True)
class Book:
    """Seeds and the answers to all that is asked about them.

    Attributes:
        seed: of the run.
        known: tasks that no variant may repeat.
        requests: key and seed task of each request.
        answers: by question.
        work_s: CPU seconds of the pipeline without the answers, by attempt.
        longest_s: CPU seconds of the longest stretch of it between two questions.
    """

    seed: int
    known: Sequence[Task]
    requests: Sequence[tuple[str, Task]]
    answers: Mapping[str, str]
    work_s: float
    longest_s: float

    @classmethod
    def written(cls, count: int, seed: int = 0) -> Book:
        """A book of `count` seeds: BFCL's train tasks in turn, without those that nobody can answer by rule."""
        loaded = load(TasksConfig(source="bfcl"))
        known = (*loaded.train, *loaded.heldout)
        recorder = _Recorder()
        pipeline = Pipeline(SynthesisConfig(), recorder, seed, known)
        requests: list[tuple[str, Task]] = []
        attempts = 0
        for index, task in enumerate(itertools.cycle(loaded.train)):
            if len(requests) == count:
                break
            key = f"k{index:06d}"
            recorder.works()
            outcome = asyncio.run(pipeline.run(task, key))
            recorder.worked()
            attempts += outcome.attempts
            if NoPatternFailure.kind not in outcome.errors:
                requests.append((key, task))
        work_s = sum(recorder.stretches) / attempts
        return cls(seed, known, requests, recorder.answers, work_s, max(recorder.stretches))

    def seeds(self, count: int) -> Sequence[tuple[str, Task]]:
        """The first `count` requests."""
        return self.requests[:count]

    def answer(self, body: dict[str, Any]) -> Reply:
        """The server's script."""
        agent = body["response_format"]["json_schema"]["name"]
        text = self.answers.get(_question(agent, body["seed"], body["messages"][0]["content"]))
        return error(400, "no such question") if text is None else completion(text, body["model"])


def _question(agent: str, seed: int, prompt: str) -> str:
    return hashlib.sha256(json.dumps([agent, seed, prompt]).encode()).hexdigest()
