"""What an entry of the phrasebook is: the calls of one user turn, how people ask for them, what "it" then means.

A call pattern is written `function key=value …`, calls separated by `;`; `$name` is a variable, the key of a
slot (`scripted_slots`, `scripted_office_slots`). Templates name the same variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

KEEP = "(keep)"
FORGET = "(forget)"

TOPICS: Mapping[str, str] = {
    **dict.fromkeys(("file", "note", "other", "inner", "new"), "file"),
    **dict.fromkeys(("ticket", "open_ticket", "second_ticket", "next_ticket"), "ticket"),
    **dict.fromkeys(("receiver", "written_to", "person_id", "friend_id", "next_id"), "person"),
}
"""Variable → what its value is spoken of as; a request may refer to the last file, ticket or person spoken of."""

SUBJECTS = ("file", "note", "ticket", "open_ticket", "receiver", "written_to")
"""Variables for which a pronoun may stand: they name what the world holds already."""


@dataclass(frozen=True)
class Gap:
    """How a request sounds when the user leaves one thing out, and what the user adds when asked.

    Attributes:
        variable: what is left out; not named in `asked`, named in `added`.
        asked: template of the incomplete request.
        added: template of the answer that completes it.
    """

    variable: str
    asked: str
    added: str


@dataclass(frozen=True)
class Operation:
    """One thing a user can ask in one turn.

    Attributes:
        name: its key in the phrasebook.
        pattern: calls in order: function name and arguments, whose values are `$variable` or literal text.
        leaves: the variable that "it" means afterwards, or KEEP (as before) or FORGET (no file).
        templates: sentences with `{variable}` where values go.
        gaps: ways to leave something out.
    """

    name: str
    pattern: tuple[tuple[str, Mapping[str, str]], ...]
    leaves: str
    templates: tuple[str, ...]
    gaps: tuple[Gap, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        """Variables of the pattern in order of appearance, each once."""
        values = (value for _, arguments in self.pattern for value in arguments.values())
        return tuple(dict.fromkeys(value[1:] for value in values if value.startswith("$")))

    @property
    def subject(self) -> str | None:
        """The variable for which a pronoun may stand, if there is one."""
        return next((name for name in self.variables if name in SUBJECTS), None)


def operation(name: str, calls: str, leaves: str, *templates: str, gaps: tuple[Gap, ...] = ()) -> Operation:
    """An entry from its written form."""
    return Operation(name, tuple(_call(text) for text in calls.split("; ")), leaves, templates, gaps)


def _call(text: str) -> tuple[str, dict[str, str]]:
    function, *arguments = text.split(" ")
    return function, dict(argument.split("=", 1) for argument in arguments)
