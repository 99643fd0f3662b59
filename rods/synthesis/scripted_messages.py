"""Scripted user messages for any call: a sentence out of the function's documentation and the argument
values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rods.simulation.functions import FunctionDoc
from rods.tasks.model import Call
from rods.tasks.profile import leaves

FROM_RESULTS = "the one found before"
_REQUESTS = ("Please {0}.", "I would like you to {0}.", "Could you {0}?", "I need you to {0}.", "Kindly {0}.")


def request(
    call: Call, doc: FunctionDoc, variety: int, unsaid: Collection[str] = (), omitted: Collection[str] = ()
) -> str:
    """One sentence that asks for a call.

    Args:
        call: the call.
        doc: its function's documentation.
        variety: chooses the opening.
        unsaid: parameters whose value the user leaves to what was found before.
        omitted: parameters that are not spoken of at all.
    """
    details = "; ".join(
        f"{_meaning(doc, name)}: {FROM_RESULTS if name in unsaid else say(value)}"
        for name, value in call.arguments.items()
        if name not in omitted
    )
    wish = f"{purpose(doc)}, with {details}" if details else purpose(doc)
    return _REQUESTS[variety % len(_REQUESTS)].format(wish)


def clarification(call: Call, doc: FunctionDoc, parameters: Sequence[str]) -> str:
    """The message that gives what was omitted."""
    details = "; ".join(f"{_meaning(doc, name)}: {say(call.arguments[name])}" for name in parameters)
    return f"Sorry, I left something out: {details}."


def say(value: Any) -> str:
    """A value as a user writes it; lists item by item."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key.replace('_', ' ')} {say(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(say, value)) or "none"
    return f"'{value}'" if isinstance(value, str) else str(value)


def purpose(doc: FunctionDoc) -> str:
    """What a function does, as an infinitive: the first sentence of its own description."""
    text = doc.description.rpartition("Tool description:")[2].strip()
    sentence = re.split(r"(?<=\w)\.(?:\s|$)", text)[0].strip().rstrip(".")
    verb, _, rest = _plain(sentence).partition(" ")
    verb = re.sub(r"sses$", "ss", verb) if verb.endswith("sses") else re.sub(r"(?<!s)s$", "", verb)
    return f"{_lowered(verb)} {rest}".strip()


def _meaning(doc: FunctionDoc, parameter: str) -> str:
    """What a parameter is, in the words of its description up to the first pause."""
    text = doc.parameters["properties"].get(parameter, {}).get("description", "")
    clause = _plain(re.split(r"[.;(\[]|, ", text)[0].strip())
    return _lowered(clause) if clause else _plain(parameter)


def _lowered(text: str) -> str:
    """The first letter in lower case, unless it begins an abbreviation."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def _plain(text: str) -> str:
    """Code names as words: a message must not name functions or parameters."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text.replace("_", " "))
    return re.sub(r"[`'\"]", "", spaced)


def texts(value: Any) -> list[str]:
    """The leaves of a value as text."""
    return [str(leaf) for leaf in leaves(value)]
