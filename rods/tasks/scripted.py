"""Scripted seed tasks: multi-turn requests on BFCL's real file-system simulator, generated from a seed.

BFCL's own tasks are far beyond a policy that a laptop can train. These ask for the same kind of work
(calls that change state, results that later calls need, files spoken of as "it") in words that a
1M-parameter policy can learn, so that the closed loop can be seen to work. Twelve kinds span easy to
hard.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import cycle, islice

from rods.config import TasksConfig
from rods.errors import RodsError
from rods.tasks.model import Task, TaskType, Turn
from rods.tasks.phrasebook import propose
from rods.tasks.scripted_world import CLASS, FileWorld, is_error, random_workspace
from rods.tasks.taskset import TaskSet, make

KINDS: Mapping[str, tuple[str, ...]] = {
    "view": ("cat", "ls", "pwd", "tail"),
    "create": ("touch", "mkdir", "touch"),
    "manage": ("rename", "rm", "cp_as", "mv_into", "cp_into"),
    "text": ("sort", "wc", "grep"),
    "navigate": ("cd", "cd_cat", "up", "pwd", "ls"),
    "organise": ("mk_mv", "mk_cp", "mv_into"),
    "several": ("touch3", "rm2", "cat2"),
    "compare": ("diff", "find", "grep"),
    "write": ("echo", "write_new", "cat"),
    "visit": ("visit", "cd_sort", "cd_wc", "up"),
    "count": ("dep_count", "dep_count", "wc"),
    "transfer": ("dep_copy", "dep_sort", "dep_new"),
}
"""Kind → the operations its turns are drawn from, each as likely as it is listed often."""

_TURN_COUNTS = (1, 2, 2, 3, 3, 4)
_DRAWS_PER_TASK = 1000


class ScriptedTasksError(RodsError):
    """Scripted tasks that cannot be generated as asked."""


def load(config: TasksConfig) -> TaskSet:
    """Generate the seed, held-out and validation tasks of a run; equal configurations give equal tasks.

    Kinds take turns in each. Each part comes from a random stream of its own; a held-out task that repeats a
    training task's content, or only its calls, is drawn again, and a validation task that repeats either.

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


def generate(rng: random.Random, kind: str | None = None, turns: int | None = None) -> Task:
    """One scripted task whose calls all succeed on the real simulator.

    Args:
        rng: source of every choice.
        kind: one of `KINDS`; None draws one.
        turns: number of user turns; None draws one to four.

    Raises:
        ScriptedTasksError: no such kind.
    """
    if kind is None:
        kind = rng.choice(list(KINDS))
    if kind not in KINDS:
        raise ScriptedTasksError(f"unknown kind of scripted task {kind!r}; choose one of: {', '.join(KINDS)}")
    count = turns or rng.choice(_TURN_COUNTS)
    for _ in range(_DRAWS_PER_TASK):
        task = _try(rng, kind, [KINDS[kind]] * count)
        if task is not None:
            return task
    raise ScriptedTasksError(f"no {kind} task of {count} turns in {_DRAWS_PER_TASK} workspaces")


def compose(rng: random.Random, kind: str, operations: Sequence[str]) -> Task | None:
    """A task with these operations turn by turn, in a fresh workspace, with fresh names and words.

    Args:
        rng: source of every choice.
        kind: the task's label.
        operations: names in `phrasebook.OPERATIONS`, one per turn.

    Returns:
        None when the drawn workspace does not allow them; another draw may.

    Raises:
        UnknownOperationError: an operation that does not exist.
    """
    return _try(rng, kind, [(name,) for name in operations])


_PROPOSALS_PER_TURN = 10


def _try(rng: random.Random, kind: str, choices: Sequence[Sequence[str]]) -> Task | None:
    """A task in one drawn workspace, each turn's operation drawn from its choices; None where that fails."""
    state = random_workspace(rng)
    world = FileWorld.open(state)
    turns: list[Turn] = []
    referent: str | None = None
    for names in choices:
        proposals = (propose(world, rng.choice(names), referent, rng) for _ in range(_PROPOSALS_PER_TURN))
        proposal = next((found for found in proposals if found is not None), None)
        if proposal is None or any(is_error(world.execute(call)) for call in proposal.calls):
            return None
        turns.append(Turn(proposal.query, proposal.calls))
        referent = proposal.referent
    task = Task("", TaskType.BASE, (CLASS,), state, tuple(turns), kind=kind)
    name = f"scripted_{kind}_{task.content_id()[:12]}"
    return replace(task, id=name, seed_id=name)


def _distinct(rng: random.Random, taken: Sequence[Task]) -> Iterator[Task]:
    """Endless tasks, the kinds in turn; none repeats another's content, or the calls of one of `taken`."""
    contents = {task.content_id() for task in taken}
    taken_calls = {_calls(task) for task in taken}
    for kind in cycle(KINDS):
        task = generate(rng, kind)
        while task.content_id() in contents or _calls(task) in taken_calls:
            task = generate(rng, kind)
        contents.add(task.content_id())
        yield task


def _calls(task: Task) -> str:
    """The calls of all turns as text: what a policy would have to repeat to solve it."""
    return json.dumps([[call.to_json() for call in turn.calls] for turn in task.turns], sort_keys=True)
