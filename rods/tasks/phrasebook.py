"""What a user of a scripted task can ask: call patterns, how people say them, and what "it" then means.

One public table serves everybody who must stay in the distribution that the tiny policy learnt: the
generator of seed tasks (`scripted`), the demonstrations it is trained on (`rods.warmstart`) and the
scripted synthesis backend.

An operation is a pattern of calls with variables (`$file`). Reading a turn's calls against the patterns
recovers the operation (`operation_of`, `operations`), filling the variables from a live world proposes a
request (`propose`), and filling the templates says it (`phrase`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from rods.errors import RodsError
from rods.tasks.model import Call, Task
from rods.tasks.phrasebook_table import FORGET, KEEP, OPERATIONS, Operation
from rods.tasks.scripted_slots import SLOTS, Bindings
from rods.tasks.scripted_world import WorldView

PRONOUNS = ("that file", "it", "the same file")
# How often a request is about the file just spoken of, where that is here; such a request says a pronoun.
REFERENCE_RATE = 0.4
# How often `phrase` says a pronoun for the file just spoken of: the share that generated tasks show.
PRONOUN_RATE = 0.7


class UnknownOperationError(RodsError):
    """A turn whose calls fit no operation of the phrasebook, or a name that is not in it."""


@dataclass(frozen=True)
class Proposal:
    """A request that a live world allows.

    Attributes:
        query: what the user says.
        calls: the calls that answer it; not yet run.
        referent: the file that "it" means afterwards, to be handed to the next proposal; None for none.
    """

    query: str
    calls: tuple[Call, ...]
    referent: str | None


def propose(view: WorldView, operation: str, referent: str | None, rng: random.Random) -> Proposal | None:
    """Choose fresh arguments for an operation in a live world, and say the request.

    Args:
        view: the world as it is now; it is not changed.
        operation: a name in `OPERATIONS`.
        referent: the file spoken of last, or None.
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
    bindings: Bindings = {}
    refers = entry.about_file and referent in view.files() and rng.random() < REFERENCE_RATE
    if refers and referent is not None:
        bindings["file"] = referent
    for variable in entry.variables:
        if variable not in bindings:
            value = SLOTS[variable].choose(view, bindings, rng)
            if value is None:
                return None
            bindings[variable] = value
    query = _say(entry, bindings, refers, rng)
    return Proposal(query, _fill(entry, bindings), _referent(entry, bindings, referent))


def operation_of(calls: Sequence[Call]) -> str | None:
    """Name of the operation whose pattern one turn's calls fit, of which there is at most one; or None."""
    found = _read(calls)
    return found[0].name if found else None


def operations(task: Task) -> tuple[str, ...]:
    """Names of the operations of a scripted task, one per turn.

    Raises:
        UnknownOperationError: a turn's calls fit no pattern; the task is not a scripted one.
    """
    names = []
    for number, turn in enumerate(task.turns, start=1):
        name = operation_of(turn.calls)
        if name is None:
            calls = ", ".join(call.name for call in turn.calls) or "no calls"
            raise UnknownOperationError(
                f"task {task.id!r}, turn {number}: no operation has the calls {calls}"
            )
        names.append(name)
    return tuple(names)


def phrase(calls: Sequence[Call], referent: str | None, rng: random.Random) -> str | None:
    """A user's sentence for one turn's calls, in the words the tiny policy knows; None when no pattern fits.

    Args:
        calls: the turn's calls, in order.
        referent: the file spoken of last; when the request is about it, a pronoun may stand for its name.
        rng: chooses the template and the pronoun.
    """
    found = _read(calls)
    if found is None:
        return None
    entry, bindings = found
    refers = entry.about_file and bindings["file"] == referent and rng.random() < PRONOUN_RATE
    return _say(entry, bindings, refers, rng)


def referent_after(calls: Sequence[Call], referent: str | None) -> str | None:
    """The file that "it" means after a turn with these calls; None when there is none or no pattern fits."""
    found = _read(calls)
    return _referent(*found, referent) if found else None


def _read(calls: Sequence[Call]) -> tuple[Operation, Bindings] | None:
    for entry in OPERATIONS.values():
        bindings = _match(entry, calls)
        if bindings is not None:
            return entry, bindings
    return None


def _match(entry: Operation, calls: Sequence[Call]) -> Bindings | None:
    """Bindings under which the pattern is these calls; None if there are none."""
    if [call.name for call in calls] != [name for name, _ in entry.pattern]:
        return None
    bindings: Bindings = {}
    for call, (_, arguments) in zip(calls, entry.pattern, strict=True):
        if set(call.arguments) != set(arguments):
            return None
        for key, expected in arguments.items():
            value = call.arguments[key]
            if not expected.startswith("$"):
                if value != expected:
                    return None
            elif not SLOTS[expected[1:]].accepts(value) or bindings.setdefault(expected[1:], value) != value:
                return None
    return bindings


def _fill(entry: Operation, bindings: Bindings) -> tuple[Call, ...]:
    return tuple(
        Call(
            name,
            {key: bindings[value[1:]] if value.startswith("$") else value for key, value in pairs.items()},
        )
        for name, pairs in entry.pattern
    )


def _say(entry: Operation, bindings: Bindings, refers: bool, rng: random.Random) -> str:
    """A random template with the values in it, its first letter a capital."""
    words = {variable: SLOTS[variable].say(value) for variable, value in bindings.items()}
    if refers:
        words["file"] = rng.choice(PRONOUNS)
    sentence = rng.choice(entry.templates).format(**words)
    return sentence[0].upper() + sentence[1:]


def _referent(entry: Operation, bindings: Bindings, referent: str | None) -> str | None:
    if entry.leaves == KEEP:
        return referent
    if entry.leaves == FORGET:
        return None
    return str(bindings[entry.leaves])
