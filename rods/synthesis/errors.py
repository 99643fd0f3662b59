"""The paper's taxonomy of synthesis failures: 12 kinds, a class each, with the route that repairs it.

A typed failure is what closes the feedback loop: the planner of the next attempt reads it with its guidance, and
its route says whether the initial state may be patched before that attempt. Their counters are kept in
`rods.synthesis.records`. The guidance is ours: the paper's wording is not published.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar, Self

from rods.errors import RodsError


class Route(StrEnum):
    """How a failed attempt goes on."""

    PATCH = "patch + re-plan"
    REPLAN = "re-plan"


class SynthesisError(RodsError):
    """One failed attempt; raised as one of the 12 kinds.

    Attributes:
        kind: the paper's name of the kind.
        route: how the attempt goes on. Failures of functions, arguments and execution may lie in the state;
            the others cannot.
        guidance: what the planner is told to do differently.
        detail: what was expected and found.
        function: the function at fault, "" where there is none.
        turn: the 0-based turn at fault, None where there is none.
        call: the failed call as JSON text, "" where no call failed.
    """

    kind: ClassVar[str]
    route: ClassVar[Route] = Route.REPLAN
    guidance: ClassVar[str]

    def __init__(self, detail: str, function: str = "", turn: int | None = None, call: str = "") -> None:
        super().__init__(detail, function, turn, call)
        self.detail, self.function, self.turn, self.call = detail, function, turn, call

    def extended(self, remark: str) -> Self:
        """The same failure with a remark added to its detail."""
        return type(self)(f"{self.detail}; {remark}", self.function, self.turn, self.call)

    def __str__(self) -> str:
        where = f" in turn {self.turn + 1}" if self.turn is not None else ""
        what = f" at {self.function}" if self.function else ""
        return f"{self.kind}{what}{where}: {self.detail} ({self.guidance})"

    def to_json(self) -> dict[str, object]:
        """JSON object with keys type, function, turn, detail: the paper's four fields."""
        return {"type": self.kind, "function": self.function, "turn": self.turn, "detail": self.detail}


class ParamGenFailure(SynthesisError):
    """No valid arguments for a planned call."""

    kind = "param_gen_failed"
    route = Route.PATCH
    guidance = "no valid arguments; use functions whose arguments the state provides"


class DecomposeFailure(SynthesisError):
    """A planned composite that the task's functions cannot make up."""

    kind = "decompose_failed"
    route = Route.PATCH
    guidance = "a composite has parts that do not exist here; plan with listed functions and composites"


class FuncSampleFailure(SynthesisError):
    """No functions of the seed's shape."""

    kind = "func_sample_failed"
    route = Route.PATCH
    guidance = "the plan does not have the seed's shape or names unknown functions"


class VmExecFailure(SynthesisError):
    """The simulator refused a call, a state or the finished ground truth."""

    kind = "vm_exec_failed"
    route = Route.PATCH
    guidance = "a call failed in the simulator; meet its precondition first or avoid it"


class DuplicateFuncFailure(SynthesisError):
    """A repeated call, or a finished task that repeats an existing one."""

    kind = "duplicate_func"
    guidance = "the plan or the finished task repeats an existing one; choose another"


class QueryGenFailure(SynthesisError):
    """No message for a turn."""

    kind = "query_gen_failed"
    guidance = "no message could be written for a turn; choose calls a user would ask for"


class QueryVerifyFailure(SynthesisError):
    """A message that does not ask for its calls."""

    kind = "query_verify_failed"
    guidance = "a message does not lead to its calls; choose calls that can be asked for"


class QueryVerifyNoTagFailure(SynthesisError):
    """A verifier without a verdict."""

    kind = "query_verify_no_tag"
    guidance = "the verifier gave no verdict; try again"


class ConversationConstructFailure(SynthesisError):
    """A dialogue that broke a rule, was rejected, or could not be made adversarial."""

    kind = "conversation_construct_failed"
    guidance = "the dialogue broke a rule or was rejected; avoid what it names"


class NoPromptsFailure(SynthesisError):
    """An agent without a prompt, or one that names an input that is not there."""

    kind = "no_prompts"
    guidance = "the agent has no prompt; nothing to do differently"


class NoPatternFailure(SynthesisError):
    """No template of the scripted backend fits."""

    kind = "no_pattern"
    guidance = "no template fits these calls; choose others"


class PipelineFailure(SynthesisError):
    """The backend could not be reached."""

    kind = "pipeline_exception"
    guidance = "the attempt was interrupted; try again"


FAILURES: Mapping[str, type[SynthesisError]] = {
    failure.kind: failure
    for failure in (
        ParamGenFailure,
        DecomposeFailure,
        FuncSampleFailure,
        VmExecFailure,
        DuplicateFuncFailure,
        QueryGenFailure,
        QueryVerifyFailure,
        QueryVerifyNoTagFailure,
        ConversationConstructFailure,
        NoPromptsFailure,
        NoPatternFailure,
        PipelineFailure,
    )
}
"""The 12 kinds by name, those of functions and execution first."""
