"""A live world of scripted tasks: BFCL's own simulators, what they hold at this moment, and calls on them.

Scripted tasks must run on the real simulators, so that a policy that learns on them learns real tool
results. What is asked of such a world is in `phrasebook`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from rods.errors import RodsError
from rods.tasks.bfcl_package import simulator
from rods.tasks.model import Call
from rods.tasks.scripted_states import CLASSES, FILES, MESSAGES, TICKETS

# What the simulators raise for calls they cannot carry out, such as copying onto a name that exists.
_SIMULATOR_FAULTS = (ValueError, TypeError, KeyError, AttributeError)


class ScriptedWorldError(RodsError):
    """A state or a call that scripted tasks cannot work with."""


class LiveWorld:
    """Simulators loaded with a state; views see them from the current directory and the logged-in user.

    Args:
        simulators: class name → instance; they are looked at and changed in place.
    """

    def __init__(self, simulators: Mapping[str, Any]) -> None:
        self._simulators = simulators

    @staticmethod
    def open(initial_state: Mapping[str, Any]) -> LiveWorld:
        """Fresh simulators loaded with a task's initial state; the state itself is never shared.

        Raises:
            ScriptedWorldError: no class, or one that scripted tasks do not use.
            BfclMissingError: bfcl-eval is not installed.
        """
        if not initial_state or not set(initial_state) <= set(CLASSES):
            raise ScriptedWorldError(
                f"initial state: expected scenarios of {', '.join(CLASSES)}, "
                f"found {', '.join(sorted(initial_state)) or 'nothing'}"
            )
        simulators = {}
        for name, scenario in initial_state.items():
            simulators[name] = simulator(name)()
            simulators[name]._load_scenario(copy.deepcopy(scenario))
        return LiveWorld(simulators)

    def execute(self, call: Call) -> str:
        """Run one call; the result, or the simulator's exception, as BFCL's official executor renders it.

        For calls that this package wrote. Text of a model goes through `rods.simulation`, which validates it.

        Raises:
            ScriptedWorldError: no simulator has such a public function.
        """
        functions = [getattr(instance, call.name, None) for instance in self._simulators.values()]
        function = next(filter(callable, functions), None)
        if call.name.startswith("_") or function is None:
            raise ScriptedWorldError(
                f"scripted call: {', '.join(self._simulators)} has no function {call.name!r}"
            )
        try:
            result = function(**call.arguments)
        except _SIMULATOR_FAULTS as error:
            return f"Error during execution: {error}"
        return json.dumps(result) if isinstance(result, dict) else str(result)

    def files(self) -> list[str]:
        """Names of the files in the current directory, in the order the simulator lists them."""
        return _file_names(self._here) if FILES in self._simulators else []

    def dirs(self) -> list[str]:
        """Names of the directories in the current directory."""
        return [name for name, item in self._here.contents.items() if hasattr(item, "contents")]

    def files_in(self, directory: str) -> list[str]:
        """Names of the files in a directory that lies here."""
        return _file_names(self._here.contents[directory])

    def names_in(self, directory: str) -> list[str]:
        """Names of everything in a directory that lies here."""
        return list(self._here.contents[directory].contents)

    def content(self, file: str) -> str:
        """Text of a file that lies here."""
        return str(self._here.contents[file].content)

    def has_parent(self) -> bool:
        """Whether the current directory has one above it."""
        return self._here.parent is not None

    def tickets(self) -> dict[int, Mapping[str, Any]]:
        """The tickets by number, in the order of the queue; none without a ticket system."""
        desk = self._simulators.get(TICKETS)
        return {ticket["id"]: ticket for ticket in desk.ticket_queue} if desk else {}

    def next_ticket(self) -> int:
        """The number that the next ticket will have."""
        return int(self._simulators[TICKETS].ticket_counter)

    def people(self) -> dict[str, str]:
        """The contacts' user ids by name."""
        return dict(self._simulators[MESSAGES].user_map)

    def next_user_id(self) -> str:
        """The user id that the next contact will have."""
        return f"USR{self._simulators[MESSAGES].user_count + 1:03d}"

    def messages(self) -> list[tuple[str, str]]:
        """Receiver's user id and text of every message, the oldest first."""
        return [pair for message in self._simulators[MESSAGES].inbox for pair in message.items()]

    @property
    def _here(self) -> Any:
        return self._simulators[FILES]._current_dir


def is_error(result: str) -> bool:
    """Whether a result text of `LiveWorld.execute` reports that the call failed."""
    return result.startswith(('{"error"', "Error during execution"))


def _file_names(directory: Any) -> list[str]:
    return [name for name, item in directory.contents.items() if not hasattr(item, "contents")]
