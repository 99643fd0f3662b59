"""One world per rollout: what the official simulators share between instances, contained.

The simulators keep state where instances meet: mutable default arguments, dictionaries of their modules, the
process's decimal context and mpmath precision, today's date, the order of a set. Each world gets its own
copies, so that it behaves as the first and only world of a fresh process, whatever ran before. The installed
modules are never changed: a method that reaches for shared state is rebuilt with its own globals and
defaults.
"""

from __future__ import annotations

import copy
import decimal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from functools import cache
from types import FunctionType
from typing import Any

from rods.errors import RodsError
from rods.tasks.bfcl_package import simulator

TODAY = datetime(2024, 9, 1, 10, 30)
"""The date of every world, that of BFCL's trading simulator: results do not depend on the day of a run."""


_NOTHING = nullcontext()
_MPMATH = threading.RLock()
_SCALARS = frozenset({str, int, float, bool, type(None)})


class ScenarioError(RodsError):
    """An initial state that a simulator cannot load."""


def new_instance(class_name: str, scenario: Any, long_context: bool) -> Any:
    """A simulator of its own with a private copy of `scenario` loaded.

    Raises:
        UnknownClassError, BfclMissingError: the class cannot be had.
        ScenarioError: the simulator does not accept the scenario.
    """
    instance = simulator(class_name)()
    load = _loader(class_name)
    if load is None:
        return instance
    if not isinstance(scenario, Mapping):
        raise ScenarioError(f"scenario of {class_name}: expected an object, found {type(scenario).__name__}")
    if scenario.get("random_seed", 0) is None:
        raise ScenarioError(
            f"scenario of {class_name}: random_seed is null, which would make results differ every time"
        )
    try:
        load(instance, copy_json(scenario), long_context=long_context)
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ScenarioError(f"scenario of {class_name}: the simulator refused it: {error!r}") from error
    if long_context and class_name == "TravelAPI":
        _detach_rows(instance.credit_card_list)
        _detach_rows(instance.booking_record)
    return instance


def method(instance: Any, class_name: str, name: str) -> Callable[..., Any]:
    """The method `name` of `instance`, bound, reaching no state outside the instance.

    Keep it for the instance's life: default arguments belong to the world and live with the returned object,
    since within one world the official simulators do share them between calls.
    """
    bound: Callable[..., Any] = getattr(instance, name)
    if (class_name, name) == ("TravelAPI", "book_flight"):
        return lambda **arguments: _sorted_classes(bound(**arguments))
    if not _reaches_out(class_name, name):
        return bound
    shared = _SHARED.get((class_name, name))
    own = shared(sys.modules[type(instance).__module__].__dict__) if shared else {}
    return _rebuilt(getattr(type(instance), name), own).__get__(instance)


def contained(class_name: str) -> AbstractContextManager[None]:
    """Around a call and the rendering of its result: fresh numeric settings, restored afterwards."""
    return _numeric_settings() if class_name == "MathAPI" else _NOTHING


def copy_json(value: Any) -> Any:
    """A deep copy of JSON data, several times faster than `copy.deepcopy`; anything else is deep-copied."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    # The test for scalars is repeated here since a call costs more than the copy of most values.
    if kind is dict:
        return {key: item if type(item) in _SCALARS else copy_json(item) for key, item in value.items()}
    if kind is list:
        return [item if type(item) in _SCALARS else copy_json(item) for item in value]
    return copy.deepcopy(value)


@cache
def _loader(class_name: str) -> FunctionType | None:
    """What loads a scenario into an instance; None for a simulator without state.

    The simulators deep-copy their whole default state each time, which was most of the time that it took to
    make a world. Theirs is JSON data (and one empty directory), so the quick copy gives the same.
    """
    function = getattr(simulator(class_name), "_load_scenario", None)
    return function and _rebuilt(function, {"deepcopy": copy_json})


@cache
def _reaches_out(class_name: str, name: str) -> bool:
    defaults = getattr(simulator(class_name), name).__defaults__ or ()
    mutable = any(isinstance(value, (list, dict, set)) for value in defaults)
    return mutable or (class_name, name) in _SHARED


def _rebuilt(function: FunctionType, own: Mapping[str, Any]) -> FunctionType:
    """The same code with default arguments of its own and `own` in place of the module's globals."""
    scope = sys.modules[function.__module__].__dict__
    scope = {**scope, **own} if own else scope
    defaults = copy.deepcopy(function.__defaults__)
    return FunctionType(function.__code__, scope, function.__name__, defaults, function.__closure__)


@contextmanager
def _numeric_settings() -> Iterator[None]:
    import mpmath  # only MathAPI needs it

    # mpmath has one precision for all threads; decimal has a context per thread.
    with _MPMATH, decimal.localcontext(decimal.DefaultContext):
        precision = mpmath.mp.prec
        try:
            yield
        finally:
            mpmath.mp.prec = precision


def _detach_rows(table: dict[str, Any]) -> None:
    """Long-context rows come from a module's dictionary and are written to: give the world its own."""
    for key, row in table.items():
        table[key] = copy_json(row)


class _FixedDatetime(datetime):
    @classmethod
    def today(cls) -> _FixedDatetime:
        return cls(TODAY.year, TODAY.month, TODAY.day, TODAY.hour, TODAY.minute)


def _sorted_classes(result: dict[str, Any]) -> dict[str, Any]:
    """One error of `book_flight` prints a set, whose order changes with the hash seed."""
    before, brace, classes = str(result.get("error", "")).partition("Must be one of {")
    if not brace:
        return result
    return {**result, "error": f"{before}{brace}{', '.join(sorted(classes.rstrip('}').split(', ')))}}}"}


class _SortedKeys:
    """Stands in for `set` where an error text prints a difference, whose order changes with the hash seed."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = tuple(keys)

    def __sub__(self, other: set[str]) -> list[str]:
        return sorted(set(self._keys) - other)


_SHARED: dict[tuple[str, str], Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    ("TravelAPI", "verify_traveler_information"): lambda scope: {"datetime": _FixedDatetime},
    ("TicketAPI", "edit_ticket"): lambda scope: {"set": _SortedKeys},
    ("VehicleControlAPI", "get_outside_temperature_from_google"): lambda scope: {
        "LONG_WEATHER_EXTENSION": dict(scope["LONG_WEATHER_EXTENSION"])
    },
}
"""(class, method) → the globals that it reads or writes and must not share."""
