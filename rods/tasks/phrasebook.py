"""What a user of a scripted task can ask: call patterns, how people say them, and what "it" then means.

One public table serves everybody who must stay in the distribution that the tiny policy learnt: the
generator of seed tasks (`scripted`), the demonstrations it is trained on (`rods.warmstart`) and the
scripted synthesis backend.

Filling a pattern's variables from a live world proposes a request (`propose`), which may also be said with
one thing left out (`leave_out`). Reading a turn's calls against the patterns recovers the operation
(`operation_of`, `operations`).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rods.errors import RodsError
from rods.tasks.model import Call, Task
from rods.tasks.phrasebook_chains import FILE_CHAINS
from rods.tasks.phrasebook_files import FILE_STEPS
from rods.tasks.phrasebook_office import MESSAGE_STEPS, RELAYS, TICKET_STEPS
from rods.tasks.phrasebook_operation import FORGET, KEEP, TOPICS, Gap, Operation
from rods.tasks.scripted_office_slots import OFFICE_SLOTS
from rods.tasks.scripted_slots import FILE_SLOTS, Bindings, Slot
from rods.tasks.scripted_world import LiveWorld

OPERATIONS: Mapping[str, Operation] = {
    entry.name: entry for entry in (*FILE_STEPS, *FILE_CHAINS, *TICKET_STEPS, *MESSAGE_STEPS, *RELAYS)
}
SLOTS: Mapping[str, Slot] = {**FILE_SLOTS, **OFFICE_SLOTS}
PRONOUNS: Mapping[str, Sequence[str]] = {
    "file": ("that file", "it", "the same file"),
    "ticket": ("that ticket", "the same ticket"),
    "person": ("the same person", "that person"),
}
# How often a request is about what was just spoken of, where the world allows; such a request says a pronoun.
REFERENCE_RATE = 0.4

Referents = Mapping[str, Any]
"""Topic → the file, ticket number or user id that a pronoun of that topic means."""


class UnknownOperationError(RodsError):
    """A turn whose calls fit no operation of the phrasebook, or a name that is not in it."""


@dataclass(frozen=True)
class Proposal:
    """A request that a live world allows.

    Attributes:
        query: what the user says.
        calls: the calls that answer it; not yet run.
        referents: what pronouns mean afterwards, to be handed to the next proposal.
        entry: the operation.
        words: variable → how it is said in this request.
        bindings: variable → its value.
    """

    query: str
    calls: tuple[Call, ...]
    referents: Referents
    entry: Operation
    words: Mapping[str, str]
    bindings: Mapping[str, Any]


@dataclass(frozen=True)
class Omission:
    """A request said without one value.

    Attributes:
        asked: the incomplete request.
        added: what the user says when asked.
        value: what is left out.
        function: the call that needs it.
        parameter: its name there.
        alone: the world holds nothing else that could be meant, so that nobody would have to ask.
    """

    asked: str
    added: str
    value: Any
    function: str
    parameter: str
    alone: bool


def propose(world: LiveWorld, operation: str, referents: Referents, rng: random.Random) -> Proposal | None:
    """Choose fresh arguments for an operation in a live world, and say the request.

    Args:
        world: as it is now; it is not changed.
        operation: a name in `OPERATIONS`.
        referents: what was spoken of last, by topic.
        rng: source of every choice.

    Returns:
        None when this world does not allow the operation now (no file here, no parent directory, …).

    Raises:
        UnknownOperationError: no such operation.
    """
    if operation not in OPERATIONS:
        raise UnknownOperationError(
            f"unknown operation {operation!r}; choose one of: {', '.join(OPERATIONS)}"
        )
    entry = OPERATIONS[operation]
    bindings = _referred(entry, world, referents, rng)
    refers = bool(bindings)
    for variable in _chosen(entry):
        if variable not in bindings:
            bindings[variable] = SLOTS[variable].choose(world, bindings, rng)
            if bindings[variable] is None:
                return None
    words = {variable: SLOTS[variable].say(value) for variable, value in bindings.items()}
    if refers and entry.subject:
        words[entry.subject] = rng.choice(PRONOUNS[TOPICS[entry.subject]])
    query = _sentence(rng.choice(entry.templates), words)
    after = _referents(entry, bindings, referents)
    return Proposal(query, _fill(entry, bindings), after, entry, words, bindings)


def leave_out(proposal: Proposal, world: LiveWorld, rng: random.Random) -> Omission | None:
    """The same request without one thing that it needs; None where the operation has no such form.

    What a pronoun says is never left out.

    Args:
        proposal: the request.
        world: before its calls were run.
        rng: chooses what is left out.
    """
    plain = {name: SLOTS[name].say(value) for name, value in proposal.bindings.items()}
    gaps = [gap for gap in proposal.entry.gaps if proposal.words[gap.variable] == plain[gap.variable]]
    if not gaps:
        return None
    gap = rng.choice(gaps)
    function, parameter = _place(proposal.entry, gap)
    candidates = SLOTS[gap.variable].candidates
    return Omission(
        asked=_sentence(gap.asked, proposal.words),
        added=_sentence(gap.added, proposal.words),
        value=proposal.bindings[gap.variable],
        function=function,
        parameter=parameter,
        alone=candidates is not None and len(candidates(world)) < 2,
    )


def operation_of(calls: Sequence[Call]) -> str | None:
    """Name of the operation whose pattern one turn's calls fit, of which there is at most one; or None."""
    return next((entry.name for entry in OPERATIONS.values() if _fits(entry, calls)), None)


def operations(task: Task) -> tuple[str, ...]:
    """Names of the operations of a scripted task, one per turn that has calls.

    Raises:
        UnknownOperationError: a turn's calls fit no pattern; the task is not a scripted one.
    """
    names = []
    for number, turn in enumerate(task.turns, start=1):
        name = operation_of(turn.calls)
        if name is not None:
            names.append(name)
        elif turn.calls:
            calls = ", ".join(call.name for call in turn.calls)
            raise UnknownOperationError(
                f"task {task.id!r}, turn {number}: no operation has the calls {calls}"
            )
    return tuple(names)


def _referred(entry: Operation, world: LiveWorld, referents: Referents, rng: random.Random) -> Bindings:
    """The subject bound to what was spoken of last, now and then, where the world still holds it."""
    if entry.subject is None:
        return {}
    referent = referents.get(TOPICS[entry.subject])
    candidates = SLOTS[entry.subject].candidates
    assert candidates is not None
    if referent not in candidates(world) or rng.random() >= REFERENCE_RATE:
        return {}
    return {entry.subject: referent}


def _chosen(entry: Operation) -> tuple[str, ...]:
    """Variables to choose: those of the pattern, and what the request leaves behind where that is another."""
    left = () if entry.leaves in (KEEP, FORGET, *entry.variables) else (entry.leaves,)
    return (*entry.variables, *left)


def _fits(entry: Operation, calls: Sequence[Call]) -> bool:
    """Whether there are values for the variables under which the pattern is these calls."""
    if [call.name for call in calls] != [name for name, _ in entry.pattern]:
        return False
    bindings: Bindings = {}
    for call, (_, arguments) in zip(calls, entry.pattern, strict=True):
        if set(call.arguments) != set(arguments):
            return False
        for key, expected in arguments.items():
            value = call.arguments[key]
            if not expected.startswith("$"):
                if value != expected:
                    return False
            elif not SLOTS[expected[1:]].accepts(value) or bindings.setdefault(expected[1:], value) != value:
                return False
    return True


def _fill(entry: Operation, bindings: Bindings) -> tuple[Call, ...]:
    return tuple(
        Call(
            name,
            {key: bindings[value[1:]] if value.startswith("$") else value for key, value in pairs.items()},
        )
        for name, pairs in entry.pattern
    )


def _place(entry: Operation, gap: Gap) -> tuple[str, str]:
    """The first function and parameter of the pattern that take the gap's variable."""
    return next(
        (name, key)
        for name, pairs in entry.pattern
        for key, value in pairs.items()
        if value == f"${gap.variable}"
    )


def _sentence(template: str, words: Mapping[str, str]) -> str:
    """A template with the values in it, its first letter a capital."""
    sentence = template.format(**words)
    return sentence[0].upper() + sentence[1:]


def _referents(entry: Operation, bindings: Bindings, before: Referents) -> Referents:
    if entry.leaves == KEEP:
        return before
    if entry.leaves == FORGET:
        return {topic: value for topic, value in before.items() if topic != "file"}
    return {**before, TOPICS[entry.leaves]: bindings[entry.leaves]}
