"""The paper's taxonomy of synthesis failures: 12 kinds, each with the route that repairs it.

A typed failure is what closes the feedback loop: the planner of the next attempt reads it, and its route says
whether the initial state may be patched before that attempt.
"""

from __future__ import annotations

from enum import StrEnum

from rods.errors import RodsError


class Route(StrEnum):
    """How a failed attempt goes on."""

    PATCH = "patch + re-plan"
    REPLAN = "re-plan"


class ErrorKind(StrEnum):
    """The 12 kinds, by the paper's names."""

    PARAM_GEN_FAILED = "param_gen_failed"
    DECOMPOSE_FAILED = "decompose_failed"
    FUNC_SAMPLE_FAILED = "func_sample_failed"
    VM_EXEC_FAILED = "vm_exec_failed"
    DUPLICATE_FUNC = "duplicate_func"
    QUERY_GEN_FAILED = "query_gen_failed"
    QUERY_VERIFY_FAILED = "query_verify_failed"
    QUERY_VERIFY_NO_TAG = "query_verify_no_tag"
    CONVERSATION_CONSTRUCT_FAILED = "conversation_construct_failed"
    NO_PROMPTS = "no_prompts"
    NO_PATTERN = "no_pattern"
    PIPELINE_EXCEPTION = "pipeline_exception"

    @property
    def route(self) -> Route:
        """Failures of functions, arguments and execution may lie in the state; the others cannot."""
        return Route.PATCH if self in _PATCHABLE else Route.REPLAN

    @property
    def guidance(self) -> str:
        """What the planner is told to do differently (ours: the paper's wording is not published)."""
        return _GUIDANCE[self]


_PATCHABLE = frozenset(
    {
        ErrorKind.PARAM_GEN_FAILED,
        ErrorKind.DECOMPOSE_FAILED,
        ErrorKind.FUNC_SAMPLE_FAILED,
        ErrorKind.VM_EXEC_FAILED,
    }
)

_GUIDANCE = {
    ErrorKind.PARAM_GEN_FAILED: "no valid arguments; use functions whose arguments the state provides",
    ErrorKind.DECOMPOSE_FAILED: "a step is no function and no composite; plan with listed functions",
    ErrorKind.FUNC_SAMPLE_FAILED: "the plan does not have the seed's shape or names unknown functions",
    ErrorKind.VM_EXEC_FAILED: "a call failed in the simulator; meet its precondition first or avoid it",
    ErrorKind.DUPLICATE_FUNC: "the plan or the finished task repeats an existing one; choose another",
    ErrorKind.QUERY_GEN_FAILED: "no message could be written for a turn; choose calls a user would ask for",
    ErrorKind.QUERY_VERIFY_FAILED: "a message does not lead to its calls; choose calls that can be asked for",
    ErrorKind.QUERY_VERIFY_NO_TAG: "the verifier gave no verdict; try again",
    ErrorKind.CONVERSATION_CONSTRUCT_FAILED: "the dialogue broke a rule or was rejected; avoid what it names",
    ErrorKind.NO_PROMPTS: "the agent has no prompt; nothing to do differently",
    ErrorKind.NO_PATTERN: "no template fits these calls; choose others",
    ErrorKind.PIPELINE_EXCEPTION: "the attempt was interrupted; try again",
}


class SynthesisError(RodsError):
    """One failed attempt.

    Attributes:
        kind: which of the 12.
        detail: what was expected and found.
        function: the function at fault, "" where there is none.
        turn: the 0-based turn at fault, None where there is none.
        call: the failed call as JSON text, "" where no call failed.
    """

    def __init__(
        self, kind: ErrorKind, detail: str, *, function: str = "", turn: int | None = None, call: str = ""
    ) -> None:
        super().__init__(kind, detail, function, turn, call)
        self.kind, self.detail, self.function, self.turn, self.call = kind, detail, function, turn, call

    def extended(self, remark: str) -> SynthesisError:
        """The same failure with a remark added to its detail."""
        detail = f"{self.detail}; {remark}"
        return SynthesisError(self.kind, detail, function=self.function, turn=self.turn, call=self.call)

    def __str__(self) -> str:
        where = f" in turn {self.turn + 1}" if self.turn is not None else ""
        what = f" at {self.function}" if self.function else ""
        return f"{self.kind}{what}{where}: {self.detail} ({self.kind.guidance})"

    def to_json(self) -> dict[str, object]:
        """JSON object with keys type, function, turn, detail: the paper's four fields."""
        return {"type": self.kind.value, "function": self.function, "turn": self.turn, "detail": self.detail}
