"""Duplicates and near-duplicates: of the run's seeds and held-out tasks, and within a static dataset.

Two tasks are near-duplicates when their calls are alike and either say enough to make that no accident or run in
worlds that are alike too. *Alike* is a Jaccard index of shingles, `synthesis.max_similarity` (0.9) or more:

- calls: pairs of neighbouring function names, and one shingle for each value of an argument (function,
  parameter, the value without case and space);
- worlds: keys and values of the initial state.

Types, empty turns and the words of the messages play no part, so that a task told otherwise, or made adversarial,
is still the same task. All of it is ours: the paper does not say that duplicates are refused.

In a run only tasks that are fixed are compared here. What other variants exist depends on the order of arrival,
on which a variant's content must not depend; the trainer's pool refuses their exact duplicates when it admits
them. A static dataset has an order, and so its variants are compared with those before them too.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rods.tasks.model import Call, Task
from rods.tasks.profile import leaves

_SPECIFIC = 6  # argument values from which calls that are alike are no accident; phrasebook tasks have fewer

_ROUNDING = 1e-9  # a product of floats may lie above the whole number that it stands for

Bag = Counter[Hashable]


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """What is compared of one task, each part made when it is first needed."""

    task: Task

    @cached_property
    def content(self) -> str:
        """Exact content."""
        return self.task.content_id()

    @cached_property
    def calls(self) -> Bag:
        """Shingles of the call sequence and its arguments."""
        return call_shingles([call for turn in self.task.turns for call in turn.calls])

    @cached_property
    def world(self) -> Bag:
        """Shingles of the initial state."""
        return Counter(_state_shingles(self.task.initial_state))

    @cached_property
    def specific(self) -> bool:
        """Whether the calls hold enough values to tell the task by them."""
        arguments = [dict(call.arguments) for turn in self.task.turns for call in turn.calls]
        return len(list(leaves(arguments))) >= _SPECIFIC


class Corpus:
    """Tasks that no variant may repeat.

    Calls that are alike share one of their few first shingles in any order that is the same for all (the prefix
    filter of set-similarity joins), and so only tasks that share one are compared.

    Args:
        tasks: seeds and held-out tasks, in any order: the answer does not depend on it.
        threshold: similarity from which two tasks are duplicates, in (0, 1].
    """

    def __init__(self, tasks: Iterable[Task], threshold: float) -> None:
        self._threshold = threshold
        self._contents: dict[str, str] = {}
        self._by_shingle: dict[Hashable, list[Fingerprint]] = {}
        for task in tasks:
            self.add(task)

    def add(self, task: Task) -> None:
        """From now on this task may not be repeated either."""
        known = Fingerprint(task)
        self._contents[known.content] = min(task.id, self._contents.get(known.content, task.id))
        for shingle in self._first(known):
            self._by_shingle.setdefault(shingle, []).append(known)

    def repeated(self, task: Task, more: Iterable[Task] = ()) -> str:
        """Which task of the corpus, or of `more`, this one repeats, in words; "" for none."""
        own = Fingerprint(task)
        if own.content in self._contents:
            return f"the same as {self._contents[own.content]}"
        alike = {id(known): known for item in self._first(own) for known in self._by_shingle.get(item, ())}
        others = (*alike.values(), *(Fingerprint(other) for other in more))
        found = [
            (similar, other.task.id) for other in others if (similar := self._similar(own, other)) is not None
        ]
        if not found:
            return ""
        similar, name = max(found, key=lambda item: (item[0], item[1]))
        return f"{similar:.2f} like {name}, allowed less than {self._threshold:g}"

    def _first(self, task: Fingerprint) -> Sequence[Hashable]:
        """So many shingles that a task without any of them shares too few with this one."""
        items = [(item, number) for item, count in task.calls.items() for number in range(count)]
        needed = math.ceil(self._threshold * len(items) - _ROUNDING)
        return sorted(items, key=_order)[: len(items) - needed + 1]

    def _similar(self, a: Fingerprint, b: Fingerprint) -> float | None:
        """Similarity of the calls where the tasks are near-duplicates, else None."""
        similar = jaccard(a.calls, b.calls)
        if similar < self._threshold:
            return None
        if (a.specific and b.specific) or jaccard(a.world, b.world) >= self._threshold:
            return similar
        return None


def call_shingles(calls: Iterable[Call]) -> Bag:
    """Neighbouring function names, the ends marked, and every argument value with its function and parameter."""
    found: Bag = Counter()
    before = ""
    for call in calls:
        found[before, call.name] += 1
        before = call.name
        for parameter, value in call.arguments.items():
            found.update((call.name, parameter, _normal(leaf)) for leaf in leaves([value]))
    found[before, ""] += 1
    return found


def jaccard(a: Bag, b: Bag) -> float:
    """Shared over all shingles, in [0, 1]; 1 for two empty bags."""
    shared = sum(min(count, b[item]) for item, count in a.items() if item in b)
    union = a.total() + b.total() - shared
    return shared / union if union else 1.0


def _state_shingles(value: Any) -> Iterator[Hashable]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield ("key", str(key))
            yield from _state_shingles(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _state_shingles(item)
    else:
        yield _normal(value)


def _normal(value: Any) -> str:
    """A value without letter case and space; 3 and 3.0 are equal."""
    number = not isinstance(value, bool) and isinstance(value, int | float)
    return f"{value:g}" if number else "".join(str(value).casefold().split())


def _order(item: Hashable) -> tuple[int, str]:
    """Some order, the same for all tasks, that does not put what is common first."""
    text = repr(item)
    return zlib.crc32(text.encode()), text
