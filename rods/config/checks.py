"""What a rule says when it is broken, and the checks that rules are made of.

A comparison with NaN is always false, so each check asks whether the value is inside its range and refuses what
is not, never the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any


@dataclass(frozen=True)
class Problem:
    """One contradiction: which key, which value, why it cannot be, what to do."""

    key: str
    value: Any
    why: str
    fix: str

    def __str__(self) -> str:
        return f"{self.key} = {self.value!r}: {self.why}; {self.fix}"


def choice(key: str, value: str, choices: Sequence[str]) -> Iterator[Problem]:
    """`value` is one of `choices`."""
    if value not in choices:
        yield Problem(key, value, "not a known choice", f"set it to one of {', '.join(choices)}")


def at_least(key: str, value: float | None, least: float) -> Iterator[Problem]:
    """`value` is `least` or more; null, where the schema allows it, is not looked at."""
    if value is not None and not value >= least:
        yield Problem(key, value, f"must be at least {least:g}", f"set it to {least:g} or more")


def at_most(key: str, value: float | None, most: int, why: str) -> Iterator[Problem]:
    """`value` is `most` or less, for the reason `why`; null is not looked at."""
    if value is not None and not value <= most:
        yield Problem(key, value, why, f"set it to {most} or less")


def positive(key: str, value: float | None) -> Iterator[Problem]:
    """`value` is above 0; null is not looked at."""
    if value is not None and not value > 0:
        yield Problem(key, value, "must be above 0", "set a positive value")


def fraction(key: str, value: float) -> Iterator[Problem]:
    """`value` lies in (0, 1]."""
    if not 0 < value <= 1:
        yield Problem(key, value, "must lie in (0, 1]", "set a fraction such as 0.2")


def finite(key: str, value: Any) -> Iterator[Problem]:
    """Every float in `value`, however deeply nested in mappings and sequences, is a finite number."""
    if isinstance(value, Mapping):
        for name, child in value.items():
            yield from finite(f"{key}.{name}" if key else str(name), child)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, child in enumerate(value):
            yield from finite(f"{key}[{index}]", child)
    elif isinstance(value, float) and not isfinite(value):
        yield Problem(key, value, "not a finite number", "set a finite number")
