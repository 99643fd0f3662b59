"""The small file systems that scripted tasks play in, and a view of a live one.

Scripted tasks must run on BFCL's own GorillaFileSystem, so that a policy that learns on them learns the
real tool results. This module draws fresh workspaces from word lists and wraps a live simulator instance;
what is asked of that world is in `phrasebook`.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Collection, Mapping
from typing import Any, Protocol

from rods.errors import RodsError
from rods.tasks.model import Call

CLASS = "GorillaFileSystem"


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


STEMS = _words(
    "report notes budget draft summary plan invoice log data config readme agenda review project "
    "result test backup image letter memo paper sales stock order price list table chart model train "
    "eval score user client team task todo ideas recipe travel music video photo guide manual lesson "
    "course grade exam essay story poem diary quote budget forecast audit survey poll vote index "
    "catalog archive record"
)
DIRECTORIES = _words(
    "docs work home temp src lib assets media inbox outbox public private shared old new final "
    "pictures songs reports letters papers plans archives backups projects results tests images logs "
    "drafts"
)
WORDS = _words(
    "alpha beta gamma delta apple banana cherry grape lemon mango orange red green blue black white "
    "yellow cat dog bird fish horse lion tiger river ocean mountain forest desert island cloud rain "
    "snow wind storm sun moon star north south east west fast slow high low open closed ready pending "
    "done urgent monday friday spring summer winter quality growth revenue cost profit error warning "
    "info debug"
)
EXTENSIONS = ("txt", "md", "csv", "log", "py", "json")

# What the simulator raises for calls it cannot carry out, such as copying onto a name that exists.
_SIMULATOR_FAULTS = (ValueError, TypeError, KeyError, AttributeError)


class ScriptedWorldError(RodsError):
    """A workspace or a call that scripted tasks cannot work with."""


class WorldView(Protocol):
    """What choosing a request needs to know of a live world, seen from its current directory."""

    def files(self) -> list[str]:
        """Names of the files here, in the order the simulator lists them."""

    def dirs(self) -> list[str]:
        """Names of the directories here, in order."""

    def files_in(self, directory: str) -> list[str]:
        """Names of the files in a directory that lies here."""

    def names_in(self, directory: str) -> list[str]:
        """Names of everything in a directory that lies here."""

    def content(self, file: str) -> str:
        """Text of a file that lies here."""

    def has_parent(self) -> bool:
        """Whether `cd ..` is possible."""


class FileWorld:
    """A `WorldView` of a live GorillaFileSystem, which can also run calls on it.

    Args:
        file_system: the simulator instance; it is looked at and changed in place.
    """

    def __init__(self, file_system: Any) -> None:
        self._file_system = file_system

    @staticmethod
    def open(initial_state: Mapping[str, Any]) -> FileWorld:
        """A fresh simulator loaded with a task's initial state; the state itself is never shared.

        Raises:
            ScriptedWorldError: the state has no GorillaFileSystem scenario, or bfcl-eval is not installed.
        """
        if CLASS not in initial_state:
            found = ", ".join(sorted(initial_state)) or "nothing"
            raise ScriptedWorldError(f"initial state: expected a {CLASS} scenario, found {found}")
        file_system = _simulator()()
        file_system._load_scenario(copy.deepcopy(dict(initial_state[CLASS])))
        return FileWorld(file_system)

    def files(self) -> list[str]:
        """Names of the files in the current directory."""
        return _file_names(self._file_system._current_dir)

    def dirs(self) -> list[str]:
        """Names of the directories in the current directory."""
        here = self._file_system._current_dir.contents
        return [name for name, item in here.items() if hasattr(item, "contents")]

    def files_in(self, directory: str) -> list[str]:
        """Names of the files in a directory that lies here."""
        return _file_names(self._file_system._current_dir.contents[directory])

    def names_in(self, directory: str) -> list[str]:
        """Names of everything in a directory that lies here."""
        return list(self._file_system._current_dir.contents[directory].contents)

    def content(self, file: str) -> str:
        """Text of a file that lies here."""
        return str(self._file_system._current_dir.contents[file].content)

    def has_parent(self) -> bool:
        """Whether the current directory has one above it."""
        return self._file_system._current_dir.parent is not None

    def execute(self, call: Call) -> str:
        """Run one call; the result, or the simulator's exception, as BFCL's official executor renders it.

        For calls that this package wrote. Text of a model goes through `rods.simulation`, which validates it.

        Raises:
            ScriptedWorldError: the simulator has no such public function.
        """
        function = getattr(self._file_system, call.name, None)
        if call.name.startswith("_") or not callable(function):
            raise ScriptedWorldError(f"scripted call: {CLASS} has no function {call.name!r}")
        try:
            result = function(**call.arguments)
        except _SIMULATOR_FAULTS as error:
            return f"Error during execution: {error}"
        return json.dumps(result) if isinstance(result, dict) else str(result)


def is_error(result: str) -> bool:
    """Whether a result text of `FileWorld.execute` reports that the call failed."""
    return result.startswith(('{"error"', "Error during execution"))


def random_workspace(rng: random.Random) -> dict[str, Any]:
    """A fresh initial state: 2–3 files and 2–3 directories of 1–2 files each, from the word lists."""
    contents: dict[str, Any] = {}
    for _ in range(rng.randint(2, 3)):
        contents[fresh_file(rng, contents)] = _random_file(rng)
    for directory in rng.sample(DIRECTORIES, rng.randint(2, 3)):
        inside: dict[str, Any] = {}
        for _ in range(rng.randint(1, 2)):
            inside[fresh_file(rng, inside)] = _random_file(rng)
        contents[directory] = {"type": "directory", "contents": inside}
    return {CLASS: {"root": {"workspace": {"type": "directory", "contents": contents}}}}


def fresh_file(rng: random.Random, used: Collection[str]) -> str:
    """A file name that is not in `used`: a stem, two joined by `_`, or one and a number; an extension."""
    while True:
        stem, form = rng.choice(STEMS), rng.random()
        if form < 0.35:
            stem += "_" + rng.choice(STEMS)
        elif form < 0.55:
            stem += str(rng.randint(1, 99))
        name = f"{stem}.{rng.choice(EXTENSIONS)}"
        if name not in used:
            return name


def random_text(rng: random.Random) -> str:
    """One line of one to three words."""
    return " ".join(rng.sample(WORDS, rng.randint(1, 3)))


def _random_file(rng: random.Random) -> dict[str, str]:
    return {"type": "file", "content": "\n".join(random_text(rng) for _ in range(rng.randint(1, 4)))}


def _file_names(directory: Any) -> list[str]:
    return [name for name, item in directory.contents.items() if not hasattr(item, "contents")]


def _simulator() -> Any:
    """The simulator class, imported on first use: bfcl-eval is an optional package."""
    try:
        from bfcl_eval.eval_checker.multi_turn_eval.func_source_code import gorilla_file_system
    except ImportError as error:
        raise ScriptedWorldError(
            "scripted tasks run on BFCL's simulators, which are not installed: "
            "pip install --no-deps bfcl-eval==2026.3.23 && pip install mpmath"
        ) from error
    return gorilla_file_system.GorillaFileSystem
