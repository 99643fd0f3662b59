"""Types of arguments: the quick test never says more than the schema, BFCL's tolerance is a setting."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rods.config import SimulationConfig
from rods.simulation import calls, official_types
from rods.simulation.calls import CallError, WrongTypeError
from rods.simulation.functions import documentation
from rods.simulation.schemas import compile_arguments
from rods.simulation.session import World
from rods.tasks.bfcl_package import CLASSES
from rods.tasks.model import Call

DOCS = documentation(CLASSES)
OFFICIAL = SimulationConfig(types="official")
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from([10**400, "x" * 200_000, "\ud800"])
)
VALUES = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(max_size=2), SCALARS, max_size=2)


@st.composite
def some_calls(draw: st.DrawFn) -> Call:
    doc = DOCS[draw(st.sampled_from(sorted(DOCS)))]
    names = draw(st.lists(st.sampled_from([*doc.parameters["properties"], "other"]), unique=True))
    required = doc.parameters["required"] if draw(st.booleans()) else ()
    return Call(doc.name, {name: draw(VALUES) for name in (*required, *names)})


@settings(deadline=None, max_examples=300)  # machines under load
@given(some_calls())
def test_a_quick_yes_is_one_of_the_validator_and_of_the_limits(call: Call) -> None:
    quick, checker = calls._checkers(DOCS[call.name])
    if quick(call.arguments):
        calls.check_value(call.arguments)
        assert checker.is_valid(call.arguments)


def test_ordinary_calls_get_the_quick_yes() -> None:
    for name, arguments in (
        ("cd", {"folder": "a"}),
        ("add", {"a": 1, "b": 2.5}),
        ("mean", {"numbers": [1, 2]}),
        ("echo", {"content": "x", "file_name": None}),
        ("lockDoors", {"unlock": True, "door": ["driver"]}),
        ("get_ticket", {"ticket_id": "ticket_001"}),
    ):
        assert calls._checkers(DOCS[name])[0](arguments), name


@pytest.mark.parametrize("keyword", ["enum", "pattern", "minimum", "oneOf"])
def test_a_keyword_that_is_not_understood_is_left_to_the_validator(keyword: str) -> None:
    quick = compile_arguments({"properties": {"a": {"type": "string", keyword: []}}, "required": []})
    assert not quick({"a": "x"})


@pytest.mark.parametrize(
    ("name", "arguments", "found"),
    [
        ("adjustClimateControl", {"temperature": True}, '"currentACTemperature": true'),
        ("pressBrakePedal", {"pedalPosition": True}, '"brakePedalStatus": "pressed"'),
        ("activateParkingBrake", {"mode": 3}, "Invalid mode"),
    ],
)
def test_bfcls_tolerance_lets_the_simulator_decide(name: str, arguments: dict[str, Any], found: str) -> None:
    strict = World(["VehicleControlAPI"], {}).execute(Call(name, arguments))
    assert (strict.failed, "must be of type" in strict.text) == (True, True)
    assert found in World(["VehicleControlAPI"], {}, simulation=OFFICIAL).execute(Call(name, arguments)).text


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("multiply", {"a": "x" * 1000, "b": 10**9}, WrongTypeError),
        ("power", {"base": [1], "exponent": 10**9}, WrongTypeError),
        ("mean", {"numbers": "12"}, WrongTypeError),
        ("logarithm", {"value": "9" * 5000, "base": 2, "precision": 5}, WrongTypeError),
        ("cd", {"folder": ["x"] * 5000}, WrongTypeError),
        ("cd", {"folder": float("nan")}, CallError),
        ("cd", {"folder": "a", "deep": True}, CallError),
        ("cd", {}, CallError),
        ("fly", {}, CallError),
    ],
)
def test_the_tolerance_ends_where_it_would_cost(
    name: str, arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        official_types.validate(Call(name, arguments), DOCS)


def test_mpmath_reads_numbers_from_text_within_the_limits() -> None:
    world = World(["MathAPI"], {}, simulation=OFFICIAL)
    number = world.execute(Call("logarithm", {"value": 630.0, "base": 10, "precision": 5}))
    assert not number.failed
    assert world.execute(Call("logarithm", {"value": "630.0", "base": "10", "precision": "5"})) == number
    for precision in ("1000000000", " 1_000_000 ", "-99999999"):
        refused = world.execute(Call("logarithm", {"value": 3, "base": 2, "precision": precision}))
        assert "must lie between" in refused.text


@pytest.mark.parametrize("value", [None, True, 2.5, "x"])
def test_limits_meet_any_type(value: Any) -> None:
    world = World(["MathAPI"], {}, simulation=OFFICIAL)
    for name, doc in world.docs.items():
        found = world.execute(Call(name, dict.fromkeys(doc.parameters["properties"], value)))
        assert len(found.text) < 1000
