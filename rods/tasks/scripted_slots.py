"""The variables in the phrasebook's call patterns: how each is chosen in a world, recognised and said.

A slot is what makes a value *the* file to move or *a* new name: choosing one looks at the live world and
at the values already chosen for the same request. Here are the slots of the file system, and what slots of
all classes share; those of tickets and messages are in `scripted_office_slots`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rods.tasks.scripted_words import DIRECTORIES, STEMS, WORDS, fresh_file, random_text
from rods.tasks.scripted_world import LiveWorld

Bindings = dict[str, Any]
MODES = {"l": "lines", "w": "words", "c": "characters"}


@dataclass(frozen=True)
class Slot:
    """One kind of variable.

    Attributes:
        choose: a value that the world and the bindings so far allow, or None if there is none.
        accepts: whether a value read from a call can be this variable's.
        say: the value as the user writes it.
        candidates: all values that the world allows, where it holds a known few (its files, its tickets).
    """

    choose: Callable[[LiveWorld, Bindings, random.Random], Any]
    accepts: Callable[[Any], bool]
    say: Callable[[Any], str]
    candidates: Callable[[LiveWorld], Sequence[Any]] | None = None


def pick(rng: random.Random, values: Sequence[Any]) -> Any:
    """One of the values; None of none."""
    return rng.choice(values) if values else None


def listed(
    candidates: Callable[[LiveWorld], Sequence[Any]],
    accepts: Callable[[Any], bool],
    say: Callable[[Any], str],
) -> Slot:
    """A slot that is chosen among what the world holds."""
    return Slot(lambda world, _, rng: pick(rng, candidates(world)), accepts, say, candidates)


def is_text(value: Any) -> bool:
    """Whether a value is a string."""
    return isinstance(value, str)


def quoted(value: Any) -> str:
    """A value in the quotes that mark names and numbers' opposites in a message."""
    return f"'{value}'"


def _other_file(world: LiveWorld, bound: Bindings, rng: random.Random) -> str | None:
    """A second file; needs `file` to be bound."""
    return pick(rng, [name for name in world.files() if name != bound["file"]])


def _inner_file(world: LiveWorld, bound: Bindings, rng: random.Random) -> str | None:
    return pick(rng, world.files_in(bound["shelf"]))


def _new_file(world: LiveWorld, bound: Bindings, rng: random.Random) -> str:
    return fresh_file(rng, [*world.files(), *world.dirs(), *bound.values()])


def _new_inner_file(world: LiveWorld, bound: Bindings, rng: random.Random) -> str:
    return fresh_file(rng, world.names_in(bound["folder"]))


def _shelves(world: LiveWorld) -> list[str]:
    """Directories that hold files."""
    return [name for name in world.dirs() if world.files_in(name)]


def _target(world: LiveWorld, bound: Bindings, rng: random.Random) -> str | None:
    """A directory that can take `file`: nothing of that name is in it."""
    return pick(rng, [name for name in world.dirs() if bound["file"] not in world.names_in(name)])


def _new_folder(world: LiveWorld, _: Bindings, rng: random.Random) -> str | None:
    return pick(rng, [name for name in DIRECTORIES if name not in world.dirs()])


def _parent(world: LiveWorld, _: Bindings, __: random.Random) -> str | None:
    return ".." if world.has_parent() else None


def _search_name(world: LiveWorld, _: Bindings, rng: random.Random) -> str:
    """Mostly a part of a name that exists here or one level below."""
    names = (
        world.files() + world.dirs() + [name for folder in world.dirs() for name in world.names_in(folder)]
    )
    if names and rng.random() < 0.8:
        return str(rng.choice(names)).split(".")[0].split("_")[0]
    return rng.choice(STEMS)


def _search_word(world: LiveWorld, bound: Bindings, rng: random.Random) -> str:
    """Mostly a word that stands in `file`."""
    words = world.content(bound["file"]).split()
    return rng.choice(words) if words and rng.random() < 0.7 else rng.choice(WORDS)


def _counted(world: LiveWorld, bound: Bindings, _: random.Random) -> str:
    """What `wc` finds in `file`, as text."""
    content = world.content(bound["file"])
    parts: dict[str, Sequence[str]] = {"l": content.splitlines(), "w": content.split(), "c": content}
    return str(len(parts[bound["mode"]]))


def _copied(world: LiveWorld, bound: Bindings, _: random.Random) -> str:
    return world.content(bound["file"])


def _sorted(world: LiveWorld, bound: Bindings, _: random.Random) -> str:
    return "\n".join(sorted(world.content(bound["file"]).splitlines()))


def _notes(world: LiveWorld) -> list[str]:
    """Files of one line that is not empty."""
    return [name for name in world.files() if len(world.content(name).splitlines()) == 1]


def _note_text(world: LiveWorld, bound: Bindings, _: random.Random) -> str:
    return world.content(bound["note"])


def is_file(value: Any) -> bool:
    """Whether a value can be the name of a file here."""
    return isinstance(value, str) and "." in value.strip(".") and "/" not in value


def _is_folder(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and "." not in value and "/" not in value


FILE_SLOTS: dict[str, Slot] = {
    "file": listed(LiveWorld.files, is_file, quoted),
    "note": listed(_notes, is_file, quoted),
    "other": Slot(_other_file, is_file, quoted),
    "inner": Slot(_inner_file, is_file, quoted),
    "new": Slot(_new_file, is_file, quoted),
    "new2": Slot(_new_file, is_file, quoted),
    "new3": Slot(_new_file, is_file, quoted),
    "new_inner": Slot(_new_inner_file, is_file, quoted),
    "folder": listed(LiveWorld.dirs, _is_folder, quoted),
    "shelf": listed(_shelves, _is_folder, quoted),
    "target": Slot(_target, _is_folder, quoted),
    "new_folder": Slot(_new_folder, _is_folder, quoted),
    "parent": Slot(_parent, lambda value: value == "..", str),
    "mode": Slot(
        lambda _, __, rng: rng.choice("lwc"), lambda value: value in MODES, lambda value: MODES[value]
    ),
    "lines": Slot(lambda _, __, rng: rng.randint(1, 4), lambda value: type(value) is int, str),
    "text": Slot(lambda _, __, rng: random_text(rng), is_text, str),
    "name": Slot(_search_name, is_text, str),
    "word": Slot(_search_word, is_text, str),
    "counted": Slot(_counted, is_text, str),
    "copied": Slot(_copied, is_text, str),
    "sorted": Slot(_sorted, is_text, str),
    "note_text": Slot(_note_text, is_text, str),
}
