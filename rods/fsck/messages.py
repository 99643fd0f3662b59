"""Queues and expanded files against the journal: every seed is accounted for, and so is every variant."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from rods.curriculum import pool
from rods.curriculum.events import SeedOutcome
from rods.curriculum.records import SeedRequest, TaskRecord
from rods.curriculum.state import CurriculumState
from rods.exchange import names
from rods.exchange.atomic import CorruptFileError, parse_json, write_text
from rods.exchange.queue import STATES, MessageMissingError, Queue
from rods.exchange.rundir import RunDir
from rods.fsck.journals import Record
from rods.fsck.report import Finding, Severity, relative, set_aside
from rods.tasks.model import Task, TaskFormatError

_UNANSWERED = ("quarantine", "dropped")  # a seed that ended there has no answer


@dataclass(frozen=True)
class Box:
    """One queue as it lies on disk: the state of every key, and the messages that can be read."""

    name: str
    states: Mapping[str, str]
    messages: Mapping[str, Mapping[str, Any]]
    unreadable: Mapping[str, str]


def open_box(name: str, queue: Queue) -> Box:
    """Read every message of a queue."""
    states = {key: state for state in queue.counts() for key in queue.keys(state)}
    messages, unreadable = {}, {}
    for key, state in states.items():
        try:
            messages[key] = queue.read(state, key)
        except (CorruptFileError, MessageMissingError) as error:
            unreadable[key] = str(error)
    return Box(name, states, messages, unreadable)


def check_readable(box: Box) -> Iterator[Finding]:
    """Messages that are none. What lies in quarantine was set aside for that already."""
    for key, reason in box.unreadable.items():
        state = box.states[key]
        if state != "quarantine":
            ready = state == "ready"
            yield Finding(
                "message-unreadable",
                Severity.WARNING if ready else Severity.ERROR,
                f"queues/{box.name}/{state}",
                f"the message {key!r}",
                reason,
                "nothing: who claims it sets it aside" if ready else "restore the file from a copy",
            )


class Accounts:
    """What the history says about seeds and variants, compared with the queues.

    Args:
        seeds, variants: the two queues.
        state: of the curriculum after the whole history.
        records: the history.
        tasks: the seed tasks.
    """

    def __init__(
        self,
        run: RunDir,
        seeds: Box,
        variants: Box,
        state: CurriculumState,
        records: list[Record],
        tasks: tuple[Task, ...],
    ) -> None:
        self._run, self._seeds, self._variants, self._state = run, seeds, variants, state
        self._answers = {key: _tasks(message) for key, message in variants.messages.items()}
        answered = (task for answer in self._answers.values() for task in answer)
        self._tasks = {task.id: task for task in (*answered, *tasks)}
        self._refused = {
            (record["key"], record["task_id"]) for record in records if record["name"] == "variant_refused"
        }

    def check(self) -> Iterator[Finding]:
        """Every finding about seeds, answers, variants and the expanded files."""
        for key, request in sorted(self._state.requests.items()):
            yield from self._check_request(key, request)
        for key in sorted(self._seeds.states.keys() - self._state.requests.keys()):
            yield _ahead(f"queues/seeds/{self._seeds.states[key]}", f"seed {key!r}")
        for key in sorted(self._variants.states.keys() - self._state.requests.keys()):
            yield _ahead(f"queues/variants/{self._variants.states[key]}", f"the answer to {key!r}")
        for record in self._state.tasks.values():
            if record.request:
                yield from self._check_variant(record)
        last = self._state.epoch - self._state.in_epoch
        for epoch in range(1, last + 1):
            yield from self._check_expanded(epoch)

    def _check_request(self, key: str, request: SeedRequest) -> Iterator[Finding]:
        seed, answer = self._seeds.states.get(key), self._variants.states.get(key)
        if request.outcome is None and seed is None and answer is None:
            mend = partial(self._queue_again, key, request) if request.task_id in self._tasks else None
            found = "neither the seed nor an answer in the queues"
            yield _request(
                key, "seed-missing", "an open seed in the queue", found, "a resume queues it again", mend
            )
        elif request.outcome is None and seed == "done" and answer is None:
            found = "a seed that is done without an answer"
            yield _request(key, "answer-missing", "an answer", found, "the barrier expires it", None)
        elif request.outcome is SeedOutcome.PUBLISHED and answer is None:
            found = "no answer in the queue"
            yield _request(key, "answer-missing", "the answer that was taken", found, _COPY, None)
        elif request.outcome is SeedOutcome.DROPPED and answer is None and seed not in _UNANSWERED:
            found = f"no answer, and the seed is {seed or 'not there'}"
            yield _request(key, "answer-missing", "an answer, or a seed set aside", found, _COPY, None)
        if request.outcome is SeedOutcome.PUBLISHED:
            yield from self._check_answer(key)

    def _check_answer(self, key: str) -> Iterator[Finding]:
        for task in self._answers.get(key, ()):
            known = task.id in self._state.tasks or (key, task.id) in self._refused
            if not known:
                found = f"{task.id!r} neither arrived nor was refused"
                yield _request(
                    key, "variant-unaccounted", "every variant of it in the journal", found, _COPY, None
                )

    def _check_variant(self, record: TaskRecord) -> Iterator[Finding]:
        if record.request in self._variants.messages:
            task = next((task for task in self._answers[record.request] if task.id == record.id), None)
            found = _content_flaw(task, record.id, self._state)
            if found:
                yield _request(
                    record.request, "variant-content", "what the journal took in", found, _COPY, None
                )

    def _check_expanded(self, epoch: int) -> Iterator[Finding]:
        path = self._run.expanded_file(epoch)
        arrived = [record.id for record in pool.arrived(self._state, epoch)]
        found = self._expanded_flaw(epoch, arrived)
        if found:
            complete = all(not _content_flaw(self._tasks.get(name), name, self._state) for name in arrived)
            yield Finding(
                "expanded-mismatch",
                Severity.ERROR,
                relative(self._run, path),
                f"the {len(arrived)} variants that arrived in epoch {epoch}",
                found,
                "a repair writes it anew from the answers" if complete else _COPY,
                partial(self._write_expanded, epoch, arrived) if complete else None,
            )

    def _expanded_flaw(self, epoch: int, arrived: list[str]) -> str:
        path = self._run.expanded_file(epoch)
        if path.is_symlink() or not path.is_file():
            return "no file"
        try:
            tasks = [Task.from_json(parse_json(line, path)) for line in path.read_bytes().splitlines()]
        except (CorruptFileError, TaskFormatError, TypeError, KeyError, ValueError) as error:
            return f"a line that is no task ({str(error)[:120]})"
        if [task.id for task in tasks] != arrived:
            return f"{len(tasks)} tasks, not those that arrived or in another order"
        return next(filter(None, (_content_flaw(task, task.id, self._state) for task in tasks)), "")

    def _write_expanded(self, epoch: int, arrived: list[str]) -> str:
        path = self._run.expanded_file(epoch)
        moved = f"{set_aside(self._run, path)}; " if path.exists() or path.is_symlink() else ""
        lines = [json.dumps(self._tasks[name].to_json(), sort_keys=True) + "\n" for name in arrived]
        write_text(path, "".join(lines))
        return f"{moved}wrote {relative(self._run, path)} anew from the answers"

    def _queue_again(self, key: str, request: SeedRequest) -> str:
        message = {
            "key": key,
            "step": request.step,
            "epoch": request.epoch,
            "phi": request.phi,
            "depth_shift": request.depth_shift,
            "task": self._tasks[request.task_id].to_json(),
        }
        queue = self._run.queue("seeds")
        moved = ""
        # A key that is known but in no state lost its file; what a crash left in tmp/ was finished by the first put.
        if not queue.put(key, message, priority=request.phi) and not _is_somewhere(queue, key):
            moved = f"{set_aside(self._run, queue.root / 'keys' / names.stored(names.encode(key)))}; "
            queue.put(key, message, priority=request.phi)
        return f"{moved}queued the open seed {key} again"


_COPY = "restore the run's files from a copy, or go on: nothing that trains depends on it"


def _request(key: str, code: str, expected: str, found: str, advice: str, mend: Any) -> Finding:
    severity = Severity.WARNING if mend else Severity.ERROR
    return Finding(code, severity, f"seed {key}", expected, found, advice, mend)


def _is_somewhere(queue: Queue, key: str) -> bool:
    return any(key in queue.keys(state) for state in STATES)


def _ahead(where: str, what: str) -> Finding:
    return Finding(
        "message-ahead",
        Severity.INFO,
        where,
        "messages of the run's history",
        f"{what}, asked for behind the point the run continues from",
        "nothing: the same step asks for it again",
    )


def _tasks(message: Mapping[str, Any]) -> list[Task]:
    """The variants in an answer; none for one that is malformed, which the trainer sets aside."""
    try:
        return [Task.from_json(task) for task in message["tasks"]]
    except (TaskFormatError, KeyError, TypeError, ValueError):
        return []


def _content_flaw(task: Task | None, task_id: str, state: CurriculumState) -> str:
    """Why `task` is not the variant that the journal took in; "" when it is."""
    if task is None:
        return f"variant {task_id!r} is not there"
    taken = state.contents.get(task.content_id())
    return "" if taken == task_id else f"variant {task_id!r} with another content than the journal holds"
