"""EnvTuning's idea (arXiv 2510.10197): an error that says which rule was broken and what to call next.

The simulators' errors are bare ("Invalid access token"). With `simulation.hints: envtuning` the policy reads a
second line that helps it; the judge, the codes and the rewards do not change. The words are ours
(`hints_table`). A function named in a hint is one that the world has now: where it is withheld, the hint
that needs it is not given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from functools import cache

from rods.simulation.hints_table import FALLBACK, RULES
from rods.simulation.simulator import CallResult

_NAMED = re.compile(r"`(\w+)`")
_RAISED = "Error during execution: "

Hint = Callable[[str, str, CallResult, Collection[str]], str]
"""(class, function, result, functions that the world has now) → what the policy reads."""


def get(name: str) -> Hint:
    """What makes the text of a result that the policy reads: "none" or "envtuning"."""
    return {"none": _bare, "envtuning": _hinted}[name]


def hint(class_name: str, function: str, text: str, available: Collection[str]) -> str:
    """What to do about the error in a result's text.

    Args:
        class_name: of the simulator; rules of one class say nothing about another.
        function: that was called.
        text: of the result, as the executor renders it.
        available: functions that may be named.
    """
    error = _error(text)
    for pattern, advice in _rules(class_name):
        if pattern.search(error) and set(_NAMED.findall(advice)) <= {*available, function}:
            return advice.replace("{function}", function)
    return FALLBACK.replace("{function}", function)


def _bare(class_name: str, function: str, result: CallResult, available: Collection[str]) -> str:
    return result.text


def _hinted(class_name: str, function: str, result: CallResult, available: Collection[str]) -> str:
    if not result.failed or not class_name:
        return result.text
    return f"{result.text}\nHint: {hint(class_name, function, result.text, available)}"


def _error(text: str) -> str:
    if text.startswith(_RAISED):
        return text[len(_RAISED) :]
    try:
        found = json.loads(text)
    except ValueError:
        return text
    if isinstance(found, list) and found:
        found = found[0]
    return str(found.get("error", text)) if isinstance(found, dict) else text


@cache
def _rules(class_name: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern), advice) for pattern, advice in RULES.get(class_name, ()))
