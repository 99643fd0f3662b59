"""FOLDER/report/variants.html: each variant beside the task it was made from, self-contained, all text escaped."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from rods.errors import RodsError
from rods.exchange.atomic import make_dirs, write_text
from rods.tasks.model import Call, Task
from rods.variants.collect import LEFT_OUT, Item
from rods.variants.compare import ABSENT, Change, Played, changes, play

_SHOWN_CHARS = 600
_SHOWN_ITEMS = 200  # a page of more would be slow to open
# What a status means for training, whose colour it has; what is not named here never came into the pool.
_MEANINGS = {
    "active": "live",
    "published": "coming",
    "waiting": "coming",
    "retired": "past",
    LEFT_OUT: "past",
}
_HANDLED = ("parent", "key", "attempts", "errors", "profile_distance", "judge", "narrative")


@dataclass(frozen=True)
class Pair:
    """What the page shows of one item; a side is None where there is no such task, or it does not run."""

    item: Item
    parent: Played | None
    variant: Played | None
    turns: list[tuple[Any, Any]]
    state: list[Change]
    provenance: list[tuple[str, str]]


def build(folder: Path, parents: Mapping[str, Task], items: Sequence[Item]) -> Path:
    """Write the page of these items into `folder`/report; returns where it is.

    Args:
        folder: of the run, or of the static dataset.
        parents: tasks that items may have been made from, by id.
        items: variants and requests without one.

    Raises:
        OSError: it cannot be written.
    """
    known = {**parents, **{item.task.id: item.task for item in items if item.task is not None}}
    pairs = [_pair(item, known.get(item.parent)) for item in items[:_SHOWN_ITEMS]]
    path = folder / "report" / "variants.html"
    make_dirs(path.parent)
    write_text(path, render(folder.absolute().name, items, pairs))
    return path


def render(name: str, items: Sequence[Item], pairs: Sequence[Pair]) -> str:
    """The page as text; all that comes from the run is escaped."""
    environment = Environment(
        loader=PackageLoader("rods.variants"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters.update(call=_call, value=_value, cut=_cut, phi=_phi)
    return environment.get_template("variants.html.j2").render(
        name=name,
        total=len(items),
        accepted=sum(not item.rejected and item.status != LEFT_OUT for item in items),
        rejected=sum(item.rejected for item in items),
        statuses=sorted(Counter(item.status for item in items).items()),
        meanings=_MEANINGS,
        failures=Counter(failure.type for item in items for failure in item.failures).most_common(),
        pairs=pairs,
    )


def _pair(item: Item, parent: Task | None) -> Pair:
    left, right = _played(parent), _played(item.task)
    before = parent.initial_state if parent else {}
    after = item.task.initial_state if item.task else before
    made = item.task.provenance if item.task else {}
    return Pair(
        item=item,
        parent=left,
        variant=right,
        turns=list(zip_longest(left.turns if left else (), right.turns if right else ())),
        state=list(changes(before, after)),
        provenance=[(key, _value(value)) for key, value in made.items() if key not in _HANDLED],
    )


def _played(task: Task | None) -> Played | None:
    try:
        return play(task) if task else None
    except RodsError:
        # A seed that does not run was quarantined for that; its reason is shown.
        return None


def _call(call: Call) -> str:
    arguments = ", ".join(f"{key}={_value(value)}" for key, value in call.arguments.items())
    return f"{call.name}({arguments})"


def _value(value: Any) -> str:
    return "–" if value is ABSENT else json.dumps(value, ensure_ascii=False, default=str)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]} … ({len(text)} characters)"


def _phi(played: Played) -> str:
    found = played.profile
    calls = " + ".join(map(str, found.calls_per_turn))
    return f"{calls} calls · depth {found.depth} · {found.flow} flow edges · {', '.join(found.classes)}"
