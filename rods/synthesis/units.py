"""Units agree: a number that a message gives in one unit must not enter a call that expects another as it stands.

What a parameter expects is said by another argument of the call (`unit: fahrenheit`, `base_currency: EUR`), else
by its own name and documentation. Only a number that was taken over *unconverted* is a violation: 30 liters as
`fuelAmount=30` (gallons) is one, `7.93` is none, and numbers without a unit prove nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from rods.simulation.functions import FunctionDoc
from rods.tasks.model import Call

# Dimension → unit → the words for it. Words that also mean something else (pound, point) are left out.
_WORDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "volume": {"gallon": ("gallon", "gallons", "gal"), "liter": ("liter", "liters", "litre", "litres")},
    "length": {
        "kilometer": ("km", "kilometer", "kilometers", "kilometre", "kilometres"),
        "mile": ("mile", "miles"),
        "meter": ("meter", "meters", "metre", "metres"),
        "foot": ("foot", "feet", "ft"),
    },
    "speed": {
        "km/h": ("km/h", "kmh", "kph", "kilometers per hour", "kilometres per hour"),
        "mph": ("mph", "m/h", "miles per hour"),
    },
    "mass": {"kilogram": ("kg", "kilogram", "kilograms"), "lb": ("lb", "lbs")},
    "temperature": {
        "celsius": ("celsius", "°c", "degrees celsius"),
        "fahrenheit": ("fahrenheit", "°f", "degrees fahrenheit"),
    },
    "pressure": {"psi": ("psi",), "kPa": ("kpa", "kilopascal", "kilopascals"), "bar": ("bar", "bars")},
    "currency": {
        "USD": ("usd", "dollar", "dollars", "us dollars", "$"),
        "EUR": ("eur", "euro", "euros", "€"),
        "GBP": ("gbp", "british pounds", "pounds sterling", "£"),
        "JPY": ("jpy", "yen", "japanese yen", "¥"),
        "RMB": ("rmb", "yuan", "cny"),
        "INR": ("inr", "rupee", "rupees", "₹"),
        "CAD": ("cad", "canadian dollars"),
        "AUD": ("aud", "australian dollars"),
    },
}
_UNITS: Mapping[str, tuple[str, str]] = {
    word: (dimension, unit)
    for dimension, units in _WORDS.items()
    for unit, words in units.items()
    for word in words
}
_WORD = "|".join(re.escape(word) for word in sorted(_UNITS, key=lambda word: (-len(word), word)))
_AMOUNT = r"(?P<amount>\d[\d,]*(?:\.\d+)?)"
_AFTER = re.compile(rf"(?<![\w.]){_AMOUNT}[\s-]*(?P<unit>{_WORD})(?![\w/])", re.IGNORECASE)
_BEFORE = re.compile(
    rf"(?P<unit>[$€£¥₹]|(?<!\w)(?:usd|eur|gbp|jpy)\s){_AMOUNT}(?!\s*(?:{_WORD})\b)", re.IGNORECASE
)


@dataclass(frozen=True)
class Quantity:
    """A number with its unit, as a message says it."""

    amount: float
    dimension: str
    unit: str


def quantities(text: str) -> list[Quantity]:
    """The numbers with units in a text, in order of the patterns."""
    return [
        Quantity(float(match["amount"].replace(",", "")), *_UNITS[match["unit"].strip().casefold()])
        for pattern in (_AFTER, _BEFORE)
        for match in pattern.finditer(text)
    ]


def mismatches(query: str, calls: Iterable[Call], docs: Mapping[str, FunctionDoc]) -> list[str]:
    """Arguments that take a number of `query` over in the wrong unit, in words."""
    said = quantities(query)
    return [
        f"{call.name}: {name}={value:g} is expected in {expected.unit}, the message says {quantity.unit}"
        for call in calls
        if said and call.name in docs
        for name, value in call.arguments.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
        for expected in _expected(call, name, docs[call.name])
        for quantity in _taken_over(value, expected, said)
    ]


def _taken_over(value: float, expected: Quantity, said: Iterable[Quantity]) -> Iterator[Quantity]:
    """The first quantity of the value's number and dimension, unless the expected unit is said with it too."""
    same = [
        quantity for quantity in said if (quantity.amount, quantity.dimension) == (value, expected.dimension)
    ]
    if same and all(quantity.unit != expected.unit for quantity in same):
        yield same[0]


def _expected(call: Call, parameter: str, doc: FunctionDoc) -> list[Quantity]:
    """The one unit that the call gives the parameter; none where nothing or several are named."""
    beside = [found for value in call.arguments.values() for found in _named(value) if isinstance(value, str)]
    if beside:
        return beside[:1]
    schema = doc.parameters.get("properties", {}).get(parameter, {})
    named = list(dict.fromkeys(_in_text(f"{parameter} {schema.get('description', '')}")))
    return named if len(named) == 1 else []


def _named(value: Any) -> list[Quantity]:
    """The unit that a whole argument names, its plural s left off or not."""
    found = _UNITS.get(str(value).strip().casefold())
    return [Quantity(0.0, *found)] if found else []


@cache
def _in_text(text: str) -> tuple[Quantity, ...]:
    words = re.finditer(rf"(?<![\w$])(?P<unit>{_WORD})(?![\w/])", text, re.IGNORECASE)
    return tuple(Quantity(0.0, *_UNITS[match["unit"].casefold()]) for match in words)
