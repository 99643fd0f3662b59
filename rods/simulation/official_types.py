"""BFCL's tolerance for wrongly typed arguments, for scores that must equal the official ones.

The official checker runs a call whatever the types of its arguments: `cancel_order(order_id=12446.0)` finds
order 12446, and any value of `ls`'s flag will do. About one changed type in twenty-five still passes a turn
there. In training such a call is an error that says what is expected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rods.simulation import calls
from rods.simulation.calls import WrongTypeError
from rods.simulation.functions import FunctionDoc
from rods.tasks.model import Call

_MAX_TEXT = 1_000


def validate(call: Call, docs: Mapping[str, FunctionDoc]) -> None:
    """As `calls.validate`, but a wrong type is left to the simulator.

    MathAPI still refuses text and lists where it wants numbers: Python multiplies them, which can take all
    memory, and their results equal no ground truth. Only mpmath reads numbers from text. Elsewhere text and
    lists may be 1,000 characters long.

    Raises:
        CallError: unknown function, missing or unknown arguments, values beyond the limits.
        WrongTypeError: a wrongly typed argument that a simulator should not meet.
    """
    try:
        calls.validate(call, docs)
    except WrongTypeError:
        numeric = docs[call.name].class_name == "MathAPI" and call.name != "logarithm"
        harmless = _is_scalar if numeric else _is_short
        if not all(harmless(value) for value in call.arguments.values()):
            raise


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float)


def _is_short(value: Any) -> bool:
    return len(str(value)) <= _MAX_TEXT
