"""The variables in the phrasebook's call patterns: how each is chosen in a world, recognised and said.

A slot is what makes a value *the* file to move or *a* new name: choosing one looks at the live world and
at the values already chosen for the same request.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rods.tasks.scripted_world import DIRECTORIES, STEMS, WORDS, WorldView, fresh_file, random_text

Bindings = dict[str, Any]
MODES = {"l": "lines", "w": "words", "c": "characters"}


@dataclass(frozen=True)
class Slot:
    """One kind of variable.

    Attributes:
        choose: a value that the world and the bindings so far allow, or None if there is none.
        accepts: whether a value read from a call can be this variable's.
        say: the value as the user writes it.
    """

    choose: Callable[[WorldView, Bindings, random.Random], Any]
    accepts: Callable[[Any], bool]
    say: Callable[[Any], str]


def _pick(rng: random.Random, values: Sequence[Any]) -> Any:
    return rng.choice(values) if values else None


def _file(view: WorldView, _: Bindings, rng: random.Random) -> str | None:
    return _pick(rng, view.files())


def _other_file(view: WorldView, bound: Bindings, rng: random.Random) -> str | None:
    """A second file; needs `file` to be bound."""
    return _pick(rng, [name for name in view.files() if name != bound["file"]])


def _inner_file(view: WorldView, bound: Bindings, rng: random.Random) -> str | None:
    return _pick(rng, view.files_in(bound["shelf"]))


def _new_file(view: WorldView, bound: Bindings, rng: random.Random) -> str:
    return fresh_file(rng, [*view.files(), *view.dirs(), *bound.values()])


def _new_inner_file(view: WorldView, bound: Bindings, rng: random.Random) -> str:
    return fresh_file(rng, view.names_in(bound["folder"]))


def _folder(view: WorldView, _: Bindings, rng: random.Random) -> str | None:
    return _pick(rng, view.dirs())


def _shelf(view: WorldView, _: Bindings, rng: random.Random) -> str | None:
    """A directory that holds files."""
    return _pick(rng, [name for name in view.dirs() if view.files_in(name)])


def _target(view: WorldView, bound: Bindings, rng: random.Random) -> str | None:
    """A directory that can take `file`: nothing of that name is in it."""
    return _pick(rng, [name for name in view.dirs() if bound["file"] not in view.names_in(name)])


def _new_folder(view: WorldView, _: Bindings, rng: random.Random) -> str | None:
    return _pick(rng, [name for name in DIRECTORIES if name not in view.dirs()])


def _parent(view: WorldView, _: Bindings, __: random.Random) -> str | None:
    return ".." if view.has_parent() else None


def _search_name(view: WorldView, _: Bindings, rng: random.Random) -> str:
    """Mostly a part of a name that exists here or one level below."""
    names = view.files() + view.dirs() + [name for folder in view.dirs() for name in view.names_in(folder)]
    if names and rng.random() < 0.8:
        return str(rng.choice(names)).split(".")[0].split("_")[0]
    return rng.choice(STEMS)


def _search_word(view: WorldView, bound: Bindings, rng: random.Random) -> str:
    """Mostly a word that stands in `file`."""
    words = view.content(bound["file"]).split()
    return rng.choice(words) if words and rng.random() < 0.7 else rng.choice(WORDS)


def _counted(view: WorldView, bound: Bindings, _: random.Random) -> str:
    """What `wc` finds in `file`, as text."""
    content = view.content(bound["file"])
    parts: dict[str, Sequence[str]] = {"l": content.splitlines(), "w": content.split(), "c": content}
    return str(len(parts[bound["mode"]]))


def _copied(view: WorldView, bound: Bindings, _: random.Random) -> str:
    return view.content(bound["file"])


def _sorted(view: WorldView, bound: Bindings, _: random.Random) -> str:
    return "\n".join(sorted(view.content(bound["file"]).splitlines()))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_file(value: Any) -> bool:
    return isinstance(value, str) and "." in value.strip(".") and "/" not in value


def _is_folder(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and "." not in value and "/" not in value


def _quoted(value: Any) -> str:
    return f"'{value}'"


SLOTS: dict[str, Slot] = {
    "file": Slot(_file, _is_file, _quoted),
    "other": Slot(_other_file, _is_file, _quoted),
    "inner": Slot(_inner_file, _is_file, _quoted),
    "new": Slot(_new_file, _is_file, _quoted),
    "new2": Slot(_new_file, _is_file, _quoted),
    "new3": Slot(_new_file, _is_file, _quoted),
    "new_inner": Slot(_new_inner_file, _is_file, _quoted),
    "folder": Slot(_folder, _is_folder, _quoted),
    "shelf": Slot(_shelf, _is_folder, _quoted),
    "target": Slot(_target, _is_folder, _quoted),
    "new_folder": Slot(_new_folder, _is_folder, _quoted),
    "parent": Slot(_parent, lambda value: value == "..", str),
    "mode": Slot(
        lambda _, __, rng: rng.choice("lwc"), lambda value: value in MODES, lambda value: MODES[value]
    ),
    "lines": Slot(lambda _, __, rng: rng.randint(1, 4), lambda value: type(value) is int, str),
    "text": Slot(lambda _, __, rng: random_text(rng), _is_text, str),
    "name": Slot(_search_name, _is_text, str),
    "word": Slot(_search_word, _is_text, str),
    "counted": Slot(_counted, _is_text, str),
    "copied": Slot(_copied, _is_text, str),
    "sorted": Slot(_sorted, _is_text, str),
}
