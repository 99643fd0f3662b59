"""Ground truth that no policy could produce: arguments that nothing it can see leads to.

A policy sees the user's messages so far, the results of its calls so far and the documentation of its
functions, and by further calls it can see the state of the world. An argument has a source when it, or the words
or numbers that it is made of, occur in one of them; capital letters may be general knowledge (an airport's code,
a ticker symbol). What then has no source is listed: such a turn cannot be passed but by luck, and its failures
teach nothing.

The judgement is by rules and errs towards finding a source: a listed argument deserves a look, an argument that
is not listed may still be hard to guess.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rods.tasks.model import Call, Task
from rods.tasks.profile import accidental, leaves, visible

_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d[\d,]*\.?\d*")
_CODE = re.compile(r"[A-Z]{2,5}")
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SPELLED = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
    "twenty",
)
_ORDINALS = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"),
    *("eleventh", "twelfth"),
)
_NAMED = {
    **{word: float(number) for number, word in enumerate(_SPELLED)},
    **{word: float(number) for number, word in enumerate(_ORDINALS, 1)},
    **{"half": 0.5, "quarter": 0.25, "halfway": 0.5, "full": 1.0, "fully": 1.0, "dozen": 12.0},
}
_SHARE = 0.5  # of a text's words that must have a source for the whole to have one
_FACTORS = (2.0, 100.0, 0.264172)  # twice, per cent, litres to gallons
_MAX_NUMBERS = 60  # seen numbers that are tried in pairs


@dataclass(frozen=True)
class Finding:
    """An argument without a source.

    Attributes:
        task: id of the task.
        turn: index of the user turn.
        function: name of the function called.
        argument: name of its argument.
        value: what the ground truth gives for it, or the part of it without a source.
        reason: one sentence.
    """

    task: str
    turn: int
    function: str
    argument: str
    value: Any
    reason: str


def audit(
    task: Task, results: Sequence[Sequence[str]], states: Sequence[str], tools: Sequence[Mapping[str, Any]]
) -> list[Finding]:
    """The arguments of `task`'s ground truth that nothing leads to, in order.

    Args:
        task: any task.
        results: texts of its ground-truth results, per turn.
        states: what further calls could show before each turn, as text.
        tools: documentation of the task's functions, as the policy gets it.
    """
    findings: list[Finding] = []
    described = _described(tools)
    said = ""
    for index, (turn, texts, state) in enumerate(zip(task.turns, results, states, strict=True)):
        said += f"\n{turn.query}"
        for call, text in zip(turn.calls, texts, strict=True):
            for argument, value in _unsourced(call, f"{state}\n{said}", described.get(call.name, "")):
                findings.append(Finding(task.id, index, call.name, argument, value, _reason(argument, value)))
            said += f"\n{text}"
    return findings


def _described(tools: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Function name → its documentation and that of other functions' arguments of the same names."""
    functions = [tool["function"] for tool in tools]
    by_argument: dict[str, list[str]] = defaultdict(list)
    for function in functions:
        for name, schema in function["parameters"].get("properties", {}).items():
            by_argument[name].append(json.dumps(schema, ensure_ascii=False))
    return {
        function["name"]: "\n".join(
            [
                json.dumps(function, ensure_ascii=False),
                *(
                    text
                    for name in function["parameters"].get("properties", {})
                    for text in by_argument[name]
                ),
            ]
        )
        for function in functions
    }


def _unsourced(call: Call, seen: str, described: str) -> Iterator[tuple[str, Any]]:
    for argument, given in call.arguments.items():
        for value in leaves([given]):
            if not (accidental(value) or _has_source(value, seen, described)):
                yield argument, value


def _has_source(value: Any, seen: str, described: str) -> bool:
    if isinstance(value, str):
        return _text_has_source(value, seen, described)
    return visible(value, described) or _number_has_source(float(value), f"{described}\n{seen}")


def _text_has_source(value: str, seen: str, described: str) -> bool:
    if value.casefold() in seen.casefold() or visible(value, described) or _CODE.fullmatch(value):
        return True
    date = _DATE.fullmatch(value)
    if date:
        return _date_has_source(date, seen)
    words = _WORD.findall(value.casefold())
    known = _words(seen) | _words(described)
    return sum(_known_word(word, known) for word in words) >= _SHARE * len(words)


@lru_cache(maxsize=4)
def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))


def _known_word(word: str, known: frozenset[str]) -> bool:
    """A word that was seen, one of the same stem, or seen words run together (`techupdate`, `us9148817941`)."""
    if word in known or any(_same_stem(word, other) for other in known):
        return True
    return sum(len(other) for other in known if len(other) > 1 and other in word) >= len(word)


def _same_stem(a: str, b: str) -> bool:
    return min(len(a), len(b)) > 3 and (a.startswith(b[:-1]) or b.startswith(a[:-1]))


def _date_has_source(date: re.Match[str], seen: str) -> bool:
    """A month that is named or numbered, and a day that is said, counted from another, or the last."""
    month, day = int(date[2]), float(date[3])
    text = seen.casefold()
    if "today" in text or "tomorrow" in text:
        return True
    digits = {float(number) for number in re.findall(r"\d+", text)} | set(_spelled(text))
    if not (1 <= month <= 12 and (_MONTHS[month - 1] in text or month in digits)):
        return False
    return (
        day in digits or "last day" in text or any(day - other in digits for other in digits if other <= 31)
    )


def _number_has_source(value: float, seen: str) -> bool:
    """One that was seen or comes of at most two that were, by arithmetic, rounding or a change of units."""
    if any(abs(value - number) < 1e-6 for number in numbers(seen)):
        return True
    recent = numbers(seen)[-_MAX_NUMBERS:]
    tolerance = max(5e-3, abs(value) * 1e-3)
    made = (
        result
        for a in recent
        for b in (*recent, *_FACTORS)
        for result in (a, a + b, a - b, a * b, a / b if b else a)
    )
    return any(abs(value - result) <= tolerance or value == round(result) for result in made)


@lru_cache(maxsize=4)  # the arguments of one call are judged by the same text
def numbers(seen: str) -> list[float]:
    """Every number of the text once, spelled ones included, those mentioned last at the end."""
    found = [float(match[0].replace(",", "").rstrip(".")) for match in _NUMBER.finditer(seen)]
    # Reversed twice: `dict` keeps the first of equal keys in its place.
    return list(dict.fromkeys(reversed([*_spelled(seen), *found])))[::-1]


def _spelled(text: str) -> list[float]:
    return [_NAMED[word] for word in _WORD.findall(text.casefold()) if word in _NAMED]


def _reason(argument: str, value: Any) -> str:
    return (
        f"{argument} = {value!r} comes from no user message so far, no result, no state and no documentation"
    )
