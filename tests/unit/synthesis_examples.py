"""Seeds and a backend with prepared answers, for the tests of the stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rods.config import SynthesisConfig
from rods.synthesis.accounting import Accounts
from rods.synthesis.agents import (
    Answer,
    Arguments,
    Judgement,
    Patch,
    Plan,
    PlannedTurn,
    Query,
    Rewrite,
    Verification,
)
from rods.synthesis.context import Context, salt_of
from rods.synthesis.seeds import read_seed
from rods.tasks.model import Call, Task, TaskType, Turn

FILES = {
    "GorillaFileSystem": {
        "root": {
            "workspace": {
                "type": "directory",
                "contents": {
                    "notes.txt": {"type": "file", "content": "one\ntwo"},
                    "docs": {"type": "directory", "contents": {}},
                },
            }
        }
    }
}


def seed_task(type_: TaskType = TaskType.BASE) -> Task:
    """Two turns on a small file system; the second uses what the first returned."""
    turns = (
        Turn("How many lines has notes.txt?", (Call("wc", {"file_name": "notes.txt", "mode": "l"}),)),
        Turn("Make log.txt.", (Call("touch", {"file_name": "log.txt"}),)),
    )
    return Task("seed", type_, ("GorillaFileSystem",), FILES, turns)


class Answers:
    """A backend that gives prepared answers.

    Args:
        answers: agent → an answer, a list of answers to be given in turn, or a function of the inputs. Agents
            that are not named give the good answer for `plan_and_calls`.
    """

    waiting = ""

    def __init__(self, **answers: Any) -> None:
        self.accounts = Accounts()
        self.asked: list[tuple[str, dict[str, Any], int]] = []
        self._answers = {**GOOD, **answers}

    async def ask(self, agent: str, inputs: Mapping[str, Any], output: type[Any], rng_seed: int) -> Any:
        self.accounts.of(agent).requests += 1
        self.asked.append((agent, dict(inputs), rng_seed))
        answer = self._answers[agent]
        if isinstance(answer, list):
            answer = answer.pop(0)
        if callable(answer):
            answer = answer(inputs)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, output)
        return answer

    @property
    def llm_calls(self) -> int:
        """Questions so far."""
        return self.accounts.total("requests")

    def provenance(self, attempt_seed: int) -> dict[str, Any]:
        """A word for all."""
        return {"backend": "prepared"}

    async def close(self) -> None:
        """Nothing to close."""

    def agents(self) -> list[str]:
        """Agents in the order in which they were asked."""
        return [agent for agent, _, _ in self.asked]


def plan(*functions: list[str], **more: Any) -> Plan:
    """A plan of these functions per turn."""
    return Plan(narrative="A story.", turns=[PlannedTurn(functions=names) for names in functions], **more)


_CALLS = {"wc": {"file_name": "notes.txt", "mode": "w"}, "touch": {"file_name": "plan.md"}}
_TEXTS = ("How many words are in notes.txt?", "Add an empty plan.md.")

GOOD: dict[str, Answer | Callable[[Mapping[str, Any]], Answer]] = {
    "planner": plan(["wc"], ["touch"]),
    "arguments": lambda inputs: Arguments(arguments=_CALLS[inputs["function"]]),
    "query": lambda inputs: Query(text=_TEXTS[inputs["turn"]]),
    "verifier": lambda inputs: Verification(
        covered=list(range(len(inputs["draft"].turns[inputs["turn"]].calls))), verdict="yes"
    ),
    "rewriter": lambda inputs: Rewrite(queries=list(inputs["draft"].queries)),
    "judge": Judgement(accepted=True),
    "patch": Patch(patches=[]),
}


def context(backend: Any, task: Task | None = None, **config: Any) -> Context:
    """The first attempt at a variant of `task`."""
    seed = read_seed(task or seed_task())
    return Context(backend, SynthesisConfig(**config), seed, salt_of(0, seed, "key", 0, 1), 1)
