"""Where the installed bfcl-eval package keeps what RODS needs: data, function documentation, simulators.

RODS ships none of BFCL. Only the eight simulators of the multi-turn suite are reachable from here, by an
explicit table: their modules import the standard library and mpmath only, while other parts of bfcl-eval
create folders at import or want a hundred more packages.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any

from rods.errors import RodsError

REQUIREMENT = "bfcl-eval==2026.3.23"

_SOURCE = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
_MODULES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
CLASSES = tuple(_MODULES)


class BfclMissingError(RodsError):
    """The bfcl-eval package, or a file of it, is not installed."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} is not installed: run `pip install --no-deps {REQUIREMENT}` and `pip install mpmath`."
        )


class UnknownClassError(RodsError):
    """A simulated API class that the multi-turn suite does not have."""

    def __init__(self, name: str) -> None:
        super().__init__(f"unknown API class {name!r}; the simulated classes are: {', '.join(CLASSES)}")


def read_records(path: str) -> list[dict[str, Any]]:
    """The JSON objects of one file of the package, one per line.

    Args:
        path: relative to the package's `data` folder.

    Raises:
        BfclMissingError: the package or the file is missing.
    """
    try:
        text = files("bfcl_eval").joinpath("data", path).read_text(encoding="utf-8")
    except ModuleNotFoundError as error:
        raise BfclMissingError("The BFCL package bfcl-eval") from error
    except FileNotFoundError as error:
        raise BfclMissingError(f"The BFCL data file {path} of {REQUIREMENT}") from error
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def read_documentation(class_name: str) -> list[dict[str, Any]]:
    """BFCL's documentation of the functions of one class, in the package's order.

    Raises:
        UnknownClassError: no such class.
        BfclMissingError: the package or the file is missing.
    """
    return read_records(f"multi_turn_func_doc/{_module_of(class_name)}.json")


@cache
def simulator(class_name: str) -> type[Any]:
    """The simulator class, as shipped by bfcl-eval.

    Raises:
        UnknownClassError: no such class.
        BfclMissingError: the package or its dependency mpmath is missing.
    """
    module = f"{_SOURCE}.{_module_of(class_name)}"
    try:
        loaded: type[Any] = getattr(import_module(module), class_name)
    except ModuleNotFoundError as error:
        raise BfclMissingError(f"The BFCL simulator {class_name} (module {error.name})") from error
    return loaded


def _module_of(class_name: str) -> str:
    if class_name not in _MODULES:
        raise UnknownClassError(class_name)
    return _MODULES[class_name]
