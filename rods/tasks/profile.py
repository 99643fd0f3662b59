"""Φ, the complexity profile of a task: what a variant must share with its seed while everything else is new.

The paper (Synthesis) names the parts: call topology as a dependency graph, its depth, parameter flow, turns
and calls per turn, type. It publishes neither a distance nor how edges are found; both are ours.

An edge joins an earlier call to a later one when a value of the earlier call's *result* is used as an
argument of the later one and the user has not said that value: only then must a policy read the result.
Values are matched by type (a string never matches a number, unless it is that number's rendering), and values
that any result is likely to hold by accident (empty strings, true and false, -1, 0, 1) never make an edge.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rods.errors import RodsError
from rods.tasks.model import Task, TaskType

# Ours: shape and flow decide how hard a task is, so they weigh most; the classes only guard the domain.
WEIGHTS: Mapping[str, float] = {
    "shape": 0.30,
    "functions": 0.20,
    "flow": 0.20,
    "depth": 0.15,
    "classes": 0.15,
}

_ACCIDENTAL = ("", ".", "..", "/", "-1", "0", "1", "0.0", "1.0")


class ProfileError(RodsError):
    """Results that do not belong to the task they are given for."""


@dataclass(frozen=True)
class Edge:
    """A value of call `source`'s result is an argument of call `target` (flat indices over the whole
    dialogue).
    """

    source: int
    target: int


@dataclass(frozen=True)
class Profile:
    """Φ(x).

    Attributes:
        type: task type.
        classes: API classes, sorted.
        calls_per_turn: number of ground-truth calls of each turn; its length is the number of turns.
        functions: function names of all calls in order.
        edges: the dependency graph, sorted, without duplicates.
        depth: number of edges on the longest path.
    """

    type: TaskType
    classes: tuple[str, ...]
    calls_per_turn: tuple[int, ...]
    functions: tuple[str, ...]
    edges: tuple[Edge, ...]
    depth: int

    @property
    def turns(self) -> int:
        """Number of user turns."""
        return len(self.calls_per_turn)

    @property
    def flow(self) -> int:
        """Number of flow edges."""
        return len(self.edges)


def profile(task: Task, results: Sequence[Sequence[str]]) -> Profile:
    """Φ of `task`, given the result texts of its ground-truth calls per turn.

    Raises:
        ProfileError: when `results` does not hold one text per call.
    """
    expected, found = [len(turn.calls) for turn in task.turns], [len(texts) for texts in results]
    if expected != found:
        raise ProfileError(
            f"task {task.id!r}: expected {expected} results per turn, found {found}; execute its calls first"
        )
    edges = _edges(task, results)
    functions = tuple(call.name for turn in task.turns for call in turn.calls)
    return Profile(task.type, tuple(sorted(task.classes)), tuple(expected), functions, edges, depth_of(edges))


def distance(a: Profile, b: Profile) -> float:
    """How far two profiles lie apart, in [0, 1]; 0 for equal ones, 1 for different task types; symmetric.

    The weighted mean (`WEIGHTS`) of five parts, each in [0, 1]: calls per turn (L1 over turns, an empty turn
    counts as one unit), multisets of functions and of edges by function name (Jaccard), depth, set of
    classes.
    """
    if a.type is not b.type:
        return 1.0
    parts = {
        "shape": _shape_distance(a.calls_per_turn, b.calls_per_turn),
        "functions": _jaccard(Counter(a.functions), Counter(b.functions)),
        "flow": _jaccard(_named_edges(a), _named_edges(b)),
        "depth": abs(a.depth - b.depth) / max(a.depth, b.depth, 1),
        "classes": _jaccard(Counter(a.classes), Counter(b.classes)),
    }
    return sum(WEIGHTS[name] * part for name, part in parts.items())


def depth_of(edges: Sequence[Edge]) -> int:
    """Number of edges on the longest path; edges sorted as in `Profile.edges`."""
    # Edges point forward and come sorted by target, so every source's depth is final when it is read.
    depths: Counter[int] = Counter()
    for edge in edges:
        depths[edge.target] = max(depths[edge.target], depths[edge.source] + 1)
    return max(depths.values(), default=0)


def isomorphic(a: Profile, b: Profile, threshold: float) -> bool:
    """Whether two profiles lie close enough for one task to stand in for the other: Φ(x′) ≈ Φ(x).

    Args:
        threshold: greatest distance allowed, in [0, 1]; `synthesis.max_profile_distance` of a run.
    """
    return distance(a, b) <= threshold


def leaves(value: Any) -> Iterator[Any]:
    """Strings, numbers and booleans inside a JSON value, depth first; keys of objects are not values."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    elif value is not None:
        yield value


def result_value(text: str) -> Any:
    """A result text as the JSON value it renders; the text itself where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def same_value(argument: Any, leaf: Any) -> bool:
    """Whether an argument carries a result's leaf: equal and of one type, or the decimal rendering of a
    number.
    """
    if isinstance(argument, bool) or isinstance(leaf, bool):
        return argument is leaf
    if isinstance(argument, str) and isinstance(leaf, int | float):
        return argument == str(leaf)
    if isinstance(argument, str) or isinstance(leaf, str):
        return isinstance(argument, str) and isinstance(leaf, str) and argument == leaf
    return bool(argument == leaf)


def visible(value: Any, text: str) -> bool:
    """Whether a user's text says `value` as a whole word (letter case and a float's trailing .0 do not
    matter).
    """
    forms = {str(value)}
    if isinstance(value, float) and value.is_integer():
        forms.add(str(int(value)))
    folded = text.casefold()
    return any(
        # Most values are not in the text at all, and a pattern each is slow to make.
        form.casefold() in folded and re.search(rf"(?<!\w){re.escape(form)}(?!\w)", text, re.IGNORECASE)
        for form in forms
    )


def accidental(value: Any) -> bool:
    """Whether a value is too common to be evidence of flow."""
    return isinstance(value, bool) or str(value) in _ACCIDENTAL


def _edges(task: Task, results: Sequence[Sequence[str]]) -> tuple[Edge, ...]:
    said = ""
    produced: list[list[Any]] = []
    edges: set[Edge] = set()
    for turn, texts in zip(task.turns, results, strict=True):
        said += "\n" + turn.query
        for call, text in zip(turn.calls, texts, strict=True):
            target = len(produced)
            for argument in leaves(dict(call.arguments)):
                source = _producer(argument, produced)
                if source is not None and not accidental(argument) and not visible(argument, said):
                    edges.add(Edge(source, target))
            produced.append(list(leaves(result_value(text))))
    return tuple(sorted(edges, key=lambda edge: (edge.target, edge.source)))


def _producer(argument: Any, produced: Sequence[Sequence[Any]]) -> int | None:
    """The latest call whose result holds the value: a policy reads the nearest one."""
    for index in range(len(produced) - 1, -1, -1):
        if any(same_value(argument, leaf) for leaf in produced[index]):
            return index
    return None


def _named_edges(a: Profile) -> Counter[tuple[str, str]]:
    return Counter((a.functions[edge.source], a.functions[edge.target]) for edge in a.edges)


def _shape_distance(a: Sequence[int], b: Sequence[int]) -> float:
    length = max(len(a), len(b))
    # One unit for the turn itself, so that an empty turn is not the same as none.
    units_a = [count + 1 for count in a] + [0] * (length - len(a))
    units_b = [count + 1 for count in b] + [0] * (length - len(b))
    total = sum(max(x, y) for x, y in zip(units_a, units_b, strict=True))
    return sum(abs(x - y) for x, y in zip(units_a, units_b, strict=True)) / total if total else 0.0


def _jaccard(a: Counter[Any], b: Counter[Any]) -> float:
    union = (a | b).total()
    return 1 - (a & b).total() / union if union else 0.0
