"""The agents of the pipeline: what each answers, and the interface of whatever answers for them.

Every answer is a pydantic model: it is the JSON schema a language model is held to, and the border at which
its text becomes data. `reason` comes first in each, so that a model reasons before it decides. Texts and lists are
bounded in the schema, since a model that cannot end a string would be cut off in the middle of its JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from rods.errors import RodsError
from rods.registry import Registry
from rods.synthesis.accounting import Accounts

BACKENDS = Registry(
    "synthesis backend", {"scripted": "rods.synthesis.scripted:build", "openai": "rods.synthesis.llm:build"}
)


Prose = Annotated[str, Field(max_length=800)]
"""What a model writes for people who run the pipeline: a reason, a story."""
Said = Annotated[str, Field(max_length=4000)]
"""What the user says in a turn; of up to 34 calls in BFCL, whose longest message has 639 characters."""
_MANY = 64  # turns, functions of a turn, changes, issues


class BackendError(RodsError):
    """A backend gave no usable answer."""


class NoPatternError(BackendError):
    """The scripted backend has no rule or template for this."""


class NoPromptError(BackendError):
    """An agent has no prompt, or its prompt names an input that is not there."""


class MalformedAnswerError(BackendError):
    """An answer that does not fit the agent's schema, also after the error was fed back."""


class BackendUnavailableError(BackendError):
    """The server could not be reached or kept failing."""


class ServerKilledError(BackendError):
    """The server went away time and again while it owed a seed an answer: the seed is not to be tried again."""


class Answer(BaseModel):
    """Base of all answers; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid")
    reason: Prose = ""


class PlannedTurn(BaseModel):
    """The functions of one turn, in order; composites are decomposed afterwards."""

    model_config = ConfigDict(extra="forbid")
    functions: list[str] = Field(max_length=_MANY)


class Plan(Answer):
    """Stage 1. `initial_state` replaces the scenario (class name → scenario); null keeps it."""

    narrative: Prose
    turns: list[PlannedTurn] = Field(max_length=_MANY)
    initial_state: dict[str, Any] | None = None


class Arguments(Answer):
    """Stage 2: the keyword arguments of one call."""

    arguments: dict[str, Any]


class StatePatch(BaseModel):
    """One minimal change of the initial state: dot path inside a class's scenario, literal dots escaped as
    `\\.`.
    """

    model_config = ConfigDict(extra="forbid")
    class_name: str
    path: str
    value: Any


class Patch(Answer):
    """Config Patch: the changes that would let the failed call run; empty when none would."""

    patches: list[StatePatch] = Field(max_length=_MANY)


class Query(Answer):
    """Stage 3: what the user says in one turn."""

    text: Said


class Verification(Answer):
    """Stage 3: the 0-based indices of the turn's calls that the message asks for, and the verdict, null if
    undecided.
    """

    covered: list[int] = Field(max_length=_MANY)
    verdict: Literal["yes", "no"] | None


class Rewrite(Answer):
    """Stages 3 and 4: all messages of the dialogue, one per turn."""

    queries: list[Said] = Field(max_length=_MANY)


class Judgement(Answer):
    """Stage 4: the Quality Judge's word."""

    accepted: bool
    issues: list[Prose] = Field(default_factory=list, max_length=_MANY)


class RefineClass(Answer):
    """Stage 4: whether rewriting the messages can repair a rejected dialogue."""

    verdict: Literal["query_fixable", "gt_unfixable"]


class MissingFunction(Answer):
    """Stage 5, miss_func: in which 0-based turn which of its functions is hidden at first."""

    turn: int
    function: str


class MissingParameter(Answer):
    """Stage 5, miss_param: which turn's request is first made without one value, and the message that then
    gives it.
    """

    turn: int
    function: str
    parameter: str
    blurred: Said
    clarification: Said


AnswerT = TypeVar("AnswerT", bound=Answer)


class Backend(Protocol):
    """Whatever answers for the agents.

    Attributes:
        accounts: what each agent cost so far; empty for ever where there is no language model.
        llm_calls: requests sent to a language model so far, of all agents.
        waiting: what the answers wait for, "" when for nothing.
    """

    accounts: Accounts

    @property
    def llm_calls(self) -> int: ...

    @property
    def waiting(self) -> str: ...

    def provenance(self, attempt_seed: int) -> Mapping[str, Any]:
        """What is written into a variant about its maker: backend, model, prompts.

        Args:
            attempt_seed: the input of that name in the attempt's questions.
        """
        ...

    async def ask(
        self, agent: str, inputs: Mapping[str, Any], output: type[AnswerT], rng_seed: int
    ) -> AnswerT:
        """The answer of `agent` ("planner", "arguments", …) to `inputs`; equal seeds give equal answers if
        it can.

        Raises:
            BackendError: no usable answer; the subclass says why.
        """
        ...

    async def close(self) -> None:
        """Free connections."""
        ...
