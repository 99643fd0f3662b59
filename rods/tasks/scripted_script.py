"""A scripted dialogue before it is a task: the requests in their world, and what may be withheld of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rods.tasks.bfcl import RESTORED_QUERY
from rods.tasks.model import Task, TaskType, Turn
from rods.tasks.phrasebook import Omission, Proposal, Referents, leave_out, propose
from rods.tasks.scripted_states import random_state
from rods.tasks.scripted_world import LiveWorld, is_error

_PROPOSALS_PER_TURN = 10


@dataclass(frozen=True)
class Script:
    """Requests that can be carried out one after the other.

    Attributes:
        kind: the task's label.
        state: class name → scenario.
        requests: one per turn of the base dialogue.
        omissions: per request, how it may be said with a value left out that nothing before tells; or None.
    """

    kind: str
    state: Mapping[str, Any]
    requests: tuple[Proposal, ...]
    omissions: tuple[Omission | None, ...]

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The base dialogue."""
        return tuple(Turn(request.query, request.calls) for request in self.requests)

    def task(self, type: TaskType, turns: tuple[Turn, ...], withheld: tuple[str, ...] = ()) -> Task:
        """The task of a dialogue; its id is the kind and a part of its content's digest."""
        task = Task("", type, tuple(self.state), self.state, turns, withheld, kind=self.kind)
        name = f"scripted_{self.kind}_{task.content_id()[:12]}"
        return replace(task, id=name, seed_id=name)

    def finished(self, type: TaskType, rng: random.Random) -> Task | None:
        """The task of a type, what is withheld drawn from what can be; None where nothing can."""
        if type is TaskType.BASE:
            return self.task(type, self.turns)
        choices = list(self._missing_functions() if type is TaskType.MISS_FUNC else self._missing_values())
        return rng.choice(choices) if choices else None

    def without_value(self, turn: int) -> tuple[Turn, ...] | None:
        """The dialogue in which request number `turn` first lacks a value; None where it cannot."""
        omission, request = self.omissions[turn], self.turns[turn]
        if omission is None:
            return None
        pair = (Turn(omission.asked, ()), Turn(omission.added, request.calls))
        return (*self.turns[:turn], *pair, *self.turns[turn + 1 :])

    def without_function(self, turn: int, name: str) -> tuple[Turn, ...]:
        """The dialogue in which a function is withheld up to request number `turn`, which calls it."""
        request = self.turns[turn]
        pair = (Turn(request.query, ()), Turn(RESTORED_QUERY, request.calls, (name,)))
        return (*self.turns[:turn], *pair, *self.turns[turn + 1 :])

    def _missing_values(self) -> Iterator[Task]:
        for turn in range(len(self.turns)):
            turns = self.without_value(turn)
            if turns is not None:
                yield self.task(TaskType.MISS_PARAM, turns)

    def _missing_functions(self) -> Iterator[Task]:
        """A function is withheld up to the turn that first needs it."""
        used: set[str] = set()
        for turn, request in enumerate(self.requests):
            for name in dict.fromkeys(call.name for call in request.calls):
                if name not in used:
                    yield self.task(TaskType.MISS_FUNC, self.without_function(turn, name), (name,))
            used |= {call.name for call in request.calls}


def write(
    rng: random.Random, kind: str, classes: Sequence[str], choices: Sequence[Sequence[str]]
) -> Script | None:
    """Requests in one drawn world of these classes; the rest as in `write_in`."""
    return write_in(rng, kind, random_state(rng, classes), choices)


def write_in(
    rng: random.Random, kind: str, state: Mapping[str, Any], choices: Sequence[Sequence[str]]
) -> Script | None:
    """Requests in one world, each turn's operation drawn from its choices; None where that fails.

    Args:
        rng: source of every choice.
        kind: the task's label.
        state: class name → scenario.
        choices: per turn, names of operations.

    Raises:
        UnknownOperationError: an operation that does not exist.
        ScriptedWorldError: a state of other classes than scripted tasks have.
    """
    world = LiveWorld.open(state)
    requests: list[Proposal] = []
    omissions: list[Omission | None] = []
    referents: Referents = {}
    known = ""
    for names in choices:
        proposals = (propose(world, rng.choice(names), referents, rng) for _ in range(_PROPOSALS_PER_TURN))
        request = next((found for found in proposals if found is not None), None)
        if request is None:
            return None
        omissions.append(_hidden(leave_out(request, world, rng), known))
        results = [world.execute(call) for call in request.calls]
        if any(is_error(result) for result in results):
            return None
        requests.append(request)
        referents = request.referents
        known = "\n".join((known, request.query, *results))
    return Script(kind, state, tuple(requests), tuple(omissions))


def _hidden(omission: Omission | None, known: str) -> Omission | None:
    """The omission, if neither messages nor results so far nor a lack of choice give the value away."""
    if omission is None or omission.alone:
        return None
    values = omission.value.values() if isinstance(omission.value, Mapping) else [omission.value]
    told = f"{known}\n{omission.asked}"
    return None if any(str(value) in told for value in values) else omission
