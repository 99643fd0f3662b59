"""What one attempt carries through the stages, and the one way in which they ask an agent.

Asking through `Context` gives every question a seed that depends only on the run's seed, the seed task's
content, the request's key, the variant and the attempt, and turns a backend's error into the taxonomy's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rods.config import SynthesisConfig
from rods.synthesis.agents import (
    Answer,
    AnswerT,
    Backend,
    BackendUnavailableError,
    MalformedAnswerError,
    NoPatternError,
    NoPromptError,
)
from rods.synthesis.errors import NoPatternFailure, NoPromptsFailure, PipelineFailure, SynthesisError
from rods.synthesis.seeds import Seed
from rods.tasks.model import Call, Task, Turn


@dataclass(frozen=True)
class ExecutedTurn:
    """The ground-truth calls of one turn and the texts that the simulator returned for them."""

    calls: tuple[Call, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Draft:
    """A dialogue in the making.

    Attributes:
        narrative: the plan's story.
        initial_state: class name → scenario, patches applied.
        turns: executed turns.
        queries: the user's message of each turn; empty before stage 3.
        judgement: the Quality Judge's reason, "" before stage 4.
    """

    narrative: str
    initial_state: Mapping[str, Any]
    turns: tuple[ExecutedTurn, ...]
    queries: tuple[str, ...] = ()
    judgement: str = ""

    def with_queries(self, queries: tuple[str, ...]) -> Draft:
        """The same dialogue with other messages."""
        return replace(self, queries=queries)


def skeleton(seed: Task, draft: Draft) -> Task:
    """The draft as a task of the seed's classes and type, without an added turn; messages not yet written are ""."""
    queries = (*draft.queries, *("" for _ in draft.turns[len(draft.queries) :]))
    turns = tuple(Turn(query, turn.calls) for query, turn in zip(queries, draft.turns, strict=True))
    return Task(seed.id, seed.type, seed.classes, draft.initial_state, turns)


@dataclass(frozen=True)
class Context:
    """One attempt at one variant.

    Attributes:
        backend: who answers.
        config: the run's synthesis settings.
        seed: the seed as read.
        salt: what all random choices of this attempt depend on (see `salt_of`).
        attempt: 1-based.
    """

    backend: Backend
    config: SynthesisConfig
    seed: Seed
    salt: str
    attempt: int

    def rng_seed(self, *parts: object) -> int:
        """A 63-bit seed for one purpose within this attempt."""
        text = json.dumps([self.salt, *map(str, parts)])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1

    async def ask(
        self,
        agent: str,
        output: type[AnswerT],
        inputs: Mapping[str, Any],
        *,
        failure: type[SynthesisError],
        turn: int | None = None,
        function: str = "",
    ) -> AnswerT:
        """The answer of `agent`; the inputs `seed`, `attempt` and `attempt_seed` are added.

        Raises:
            SynthesisError: `failure` for an answer that does not fit, else the kind of the backend's error.
        """
        common = {"seed": self.seed, "attempt": self.attempt, "attempt_seed": self.rng_seed("attempt")}
        try:
            answer: AnswerT = await self.backend.ask(
                agent, {**common, **inputs}, output, self.rng_seed(agent, turn)
            )
        except MalformedAnswerError as error:
            raise failure(str(error), function=function, turn=turn) from error
        except NoPatternError as error:
            raise NoPatternFailure(str(error), function=function, turn=turn) from error
        except NoPromptError as error:
            raise NoPromptsFailure(str(error), function=function, turn=turn) from error
        except BackendUnavailableError as error:
            raise PipelineFailure(str(error), function=function, turn=turn) from error
        assert isinstance(answer, Answer)
        return answer


def salt_of(config_seed: int, seed: Seed, key: str, variant: int, attempt: int) -> str:
    """All that a variant's content may depend on; what came before in this process is not among it."""
    return json.dumps([config_seed, seed.task.content_id(), key, variant, attempt])
