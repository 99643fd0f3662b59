"""Calls that are well formed and would still not return in reasonable time.

A policy explores: `power(10, 10**9)` and a directory copied into itself are things it will try. Each guard
here names one way in which an official simulator takes unbounded time or memory; all other calls run as they
are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rods.simulation.calls import CallError

MAX_POWER_BITS = 100_000
MAX_PRECISION = 1_000
MAX_TREE_ENTRIES = 20_000


def guard(name: str, arguments: Mapping[str, Any], instance: Any) -> None:
    """Refuse a call that would run for longer than a second.

    Raises:
        CallError: with the limit that the call exceeds.
    """
    check = _GUARDS.get(name)
    if check is not None:
        check(arguments, instance)


def _power(arguments: Mapping[str, Any], instance: Any) -> None:
    base, exponent = arguments["base"], arguments["exponent"]
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1:
        bits = base.bit_length() * exponent
        if bits > MAX_POWER_BITS:
            raise CallError(
                f"power: the result would have about {bits} bits, at most {MAX_POWER_BITS} are computed"
            )


def _bounded(argument: str) -> Callable[[Mapping[str, Any], Any], None]:
    def check(arguments: Mapping[str, Any], instance: Any) -> None:
        if abs(_number(arguments.get(argument))) > MAX_PRECISION:
            raise CallError(f"{argument} must lie between -{MAX_PRECISION} and {MAX_PRECISION}")

    return check


def _number(value: Any) -> float:
    """What mpmath takes a precision for; 0 for what it refuses."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return 0


def _walkable(arguments: Mapping[str, Any], instance: Any) -> None:
    """`cp` and `mv` can put a directory inside itself or share it many times; a walk then does not end."""
    pending, seen = [instance.root, instance._current_dir], 0
    while pending:
        children = pending.pop().contents.values()
        seen += len(children)
        if seen > MAX_TREE_ENTRIES:
            raise CallError(f"the directory tree has more than {MAX_TREE_ENTRIES} entries or contains itself")
        pending.extend(child for child in children if hasattr(child, "contents"))


_GUARDS: dict[str, Callable[[Mapping[str, Any], Any], None]] = {
    "power": _power,
    "logarithm": _bounded("precision"),
    "square_root": _bounded("precision"),
    "round_number": _bounded("decimal_places"),
    "find": _walkable,
    "du": _walkable,
}
