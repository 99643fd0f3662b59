"""Scripted seed tasks: multi-turn requests on three of BFCL's real simulators, generated from a seed.

BFCL's own tasks are far beyond a policy that a laptop can train. These ask for the same kind of work
(calls that change state, results that later calls need, files, tickets and people spoken of as "it" or
"that person", functions and values that are missing at first) in words that a 1M-parameter policy can
learn, so that the closed loop can be seen to work. Fifteen kinds span easy to hard.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from rods.config import TasksConfig
from rods.errors import RodsError
from rods.tasks.model import Task, TaskType
from rods.tasks.scripted_script import write
from rods.tasks.scripted_states import CLASSES, FILES, MESSAGES, TICKETS
from rods.tasks.taskset import TaskSet, make


@dataclass(frozen=True)
class Kind:
    """A family of tasks.

    Attributes:
        classes: the simulators of its world.
        operations: what its turns are drawn from, each as likely as it is listed often.
    """

    classes: tuple[str, ...]
    operations: tuple[str, ...]


_FILES, _TICKETS, _MESSAGES = (FILES,), (TICKETS,), (MESSAGES,)

KINDS: Mapping[str, Kind] = {
    "view": Kind(_FILES, ("cat", "ls", "pwd", "tail", "cat")),
    "tickets": Kind(_TICKETS, ("open", "show_ticket", "close", "my_tickets", "my_status")),
    "contacts": Kind(_MESSAGES, ("who", "id_of", "add", "login", "stats")),
    "manage": Kind(_FILES, ("touch", "mkdir", "rename", "rm", "cp_as", "mv_into", "cp_into")),
    "support": Kind(_TICKETS, ("open_urgent", "reprioritise", "retitle", "resolve", "close", "open")),
    "mail": Kind(_MESSAGES, ("write_id", "sent", "search", "unsend_id", "id_of", "add")),
    "text": Kind(_FILES, ("sort", "wc", "grep", "diff", "find", "echo")),
    "office": Kind(CLASSES, ("cat", "touch", "open", "close", "write_id", "id_of", "echo")),
    "navigate": Kind(_FILES, ("cd", "cd_cat", "up", "cd_sort", "cd_wc", "visit")),
    "backlog": Kind(_TICKETS, ("open_close", "open_resolve", "close2", "twin")),
    "errands": Kind(_MESSAGES, ("write", "unsend", "add_write")),
    "organise": Kind(_FILES, ("mk_mv", "mk_cp", "write_new", "touch3", "rm2", "cat2")),
    "relay": Kind(CLASSES, ("file_ticket", "ticket_file", "id_file", "touch", "open")),
    "derive": Kind(_FILES, ("dep_count", "dep_copy", "dep_sort", "dep_new")),
    "report": Kind(CLASSES, ("file_mail", "ticket_mail", "count_mail", "write", "cat")),
}
"""Kind → its world and its operations."""

TYPES = (TaskType.BASE, TaskType.MISS_FUNC, TaskType.BASE, TaskType.MISS_PARAM)
"""Task types in the order and the shares in which they are generated."""

_REQUEST_COUNTS = (1, 2, 2, 3, 3, 4)
_DRAWS_PER_TASK = 1000


class ScriptedTasksError(RodsError):
    """Scripted tasks that cannot be generated as asked."""


def load(config: TasksConfig) -> TaskSet:
    """Generate the seed, held-out and validation tasks of a run; equal configurations give equal tasks.

    Kinds and types take turns in each. Each part comes from a random stream of its own; a held-out task that
    repeats a training task's content, or only its calls, is drawn again, and a validation task that repeats
    either.

    Raises:
        ScriptedTasksError: a count is missing.
    """
    if None in (config.train_count, config.heldout_count, config.validation_count):
        raise ScriptedTasksError(
            "tasks.train_count, heldout_count and validation_count: expected numbers, found null; "
            "scripted tasks are generated, so say how many"
        )
    train = tuple(islice(_distinct(random.Random(f"scripted train {config.seed}"), ()), config.train_count))
    held_out = _distinct(random.Random(f"scripted held-out {config.seed}"), train)
    heldout = tuple(islice(held_out, config.heldout_count))
    validating = _distinct(random.Random(f"scripted validation {config.seed}"), (*train, *heldout))
    return make("scripted", train, heldout, tuple(islice(validating, config.validation_count)))


def generate(
    rng: random.Random, kind: str | None = None, requests: int | None = None, type: TaskType | None = None
) -> Task:
    """One scripted task whose calls all succeed on the real simulators.

    Args:
        rng: source of every choice.
        kind: one of `KINDS`; None draws one.
        requests: how many things the user asks for; None draws one to four. A task that withholds something
            has one more turn, in which the right answer is not to call.
        type: base, miss_func or miss_param; None draws one with the shares of `TYPES`.

    Raises:
        ScriptedTasksError: no such kind, or a type that scripted tasks do not have.
    """
    kind, type = kind or rng.choice(list(KINDS)), type or rng.choice(TYPES)
    if kind not in KINDS:
        raise ScriptedTasksError(f"unknown kind of scripted task {kind!r}; choose one of: {', '.join(KINDS)}")
    if type not in TYPES:
        raise ScriptedTasksError(
            f"scripted tasks of type {type.value!r}: there are {', '.join(dict.fromkeys(TYPES))}"
        )
    count = requests or rng.choice(_REQUEST_COUNTS)
    for _ in range(_DRAWS_PER_TASK):
        script = write(rng, kind, KINDS[kind].classes, [KINDS[kind].operations] * count)
        task = script.finished(type, rng) if script else None
        if task is not None:
            return task
    raise ScriptedTasksError(f"no {type.value} {kind} task of {count} requests in {_DRAWS_PER_TASK} worlds")


def _distinct(rng: random.Random, taken: Sequence[Task]) -> Iterator[Task]:
    """Endless tasks, kinds and types in turn; none repeats another's content, or the calls of one of `taken`."""
    contents = {task.content_id() for task in taken}
    taken_calls = {_calls(task) for task in taken}
    for kind, type in zip(cycle(KINDS), cycle(TYPES), strict=False):
        task = generate(rng, kind, type=type)
        while task.content_id() in contents or _calls(task) in taken_calls:
            task = generate(rng, kind, type=type)
        contents.add(task.content_id())
        yield task


def _calls(task: Task) -> str:
    """The calls of all turns as text: what a policy would have to repeat to solve it."""
    return json.dumps([[call.to_json() for call in turn.calls] for turn in task.turns], sort_keys=True)
