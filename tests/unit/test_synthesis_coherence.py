"""Checks of messages against calls: what is right, what is wrong, and what is made to fool them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthesis_examples import FILES, seed_task

from rods.simulation.exposure import Exposure, expose
from rods.simulation.functions import documentation
from rods.synthesis import coherence, units, withholding
from rods.synthesis.references import ambiguous
from rods.tasks.model import Call, Task, TaskType, Turn

DOCS = documentation(["VehicleControlAPI", "TravelAPI", "TradingBot", "MathAPI"])

# Derivability and entailment


def files(*turns: tuple[str, list[Call]]) -> Task:
    made = tuple(Turn(query, tuple(calls)) for query, calls in turns)
    return Task("t", TaskType.BASE, ("GorillaFileSystem",), FILES, made)


def wc(name: str) -> Call:
    return Call("wc", {"file_name": name, "mode": "l"})


def found(task: Task) -> list[str]:
    return coherence.problems(task, expose(task), documentation(["GorillaFileSystem"]))


def test_the_example_leads_to_its_calls() -> None:
    assert found(seed_task()) == []


def test_an_argument_that_nothing_leads_to() -> None:
    task = files(("Make a file.", [Call("touch", {"file_name": "zebra.xyz"})]))
    assert coherence.underivable(task, expose(task)) == [
        "turn 1: touch has file_name='zebra.xyz', which nothing leads to"
    ]
    assert len(found(task)) == 1


def test_a_later_turn_may_use_only_what_was_said_or_seen() -> None:
    contents = {"zebra": {"type": "file", "content": "one"}}
    world = {"GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": contents}}}}
    count, where = wc("zebra"), ("Where am I?", [Call("pwd", {})])
    first = replace(files(("How long is it?", [count])), initial_state=world)
    unseen = replace(files(where, ("How long is it?", [count])), initial_state=world)
    seen = replace(
        files(where, ("What is here?", [Call("ls", {})]), ("How long is it?", [count])), initial_state=world
    )
    assert coherence.unobserved(first, expose(first)) == []
    assert coherence.underivable(unseen, expose(unseen)) == []
    assert coherence.unobserved(unseen, expose(unseen)) == [
        "turn 2: wc has file_name='zebra', which nothing leads to"
    ]
    assert coherence.unobserved(seen, expose(seen)) == []


# References


def orders(query: str, value: Any, results: list[str], state: str = "{}") -> list[str]:
    """What is ambiguous when the last of two turns uses `value` after these results."""
    before = tuple(Call("place_order", {"symbol": "X"}) for _ in results)
    turns = (Turn("Buy.", before), Turn(query, (Call("cancel_order", {"order_id": value}),)))
    task = Task("t", TaskType.BASE, ("TradingBot",), {}, turns)
    return ambiguous(task, Exposure((tuple(results), ("",)), ("{}", state), ()))


TWO = '{"orders": [{"order_id": 71, "symbol": "Apple"}, {"order_id": 72, "symbol": "Tesla"}]}'


@pytest.mark.parametrize(
    ("query", "results"),
    [
        ("Cancel it.", ['{"order_id": 71}']),
        ("Cancel it.", ['{"order_id": 72}', '{"order_id": 71}']),
        ("Cancel the one for apple.", [TWO]),
        ("Cancel order 71.", [TWO]),
        ("Cancel the first.", [TWO]),
        ("Cancel all of them.", [TWO]),
        ("Cancel it.", ["[71]"]),
        ("Cancel it.", ['{"orders": [{"order_id": 71}, {"order_id": 71}]}']),
    ],
)
def test_references_to_one_thing(query: str, results: list[str]) -> None:
    assert orders(query, 71, results) == []


@pytest.mark.parametrize(
    ("query", "results", "state"),
    [
        ("Cancel it.", [TWO], "{}"),
        ("Cancel the one for Tesla motors of 1971.", ['{"ids": [71, 72]}'], "{}"),
        ("Cancel it.", ["[72, 71]"], "{}"),
        ("Cancel it.", [], TWO),
        ("Cancel 711.", [TWO], "{}"),
    ],
)
def test_references_to_several_things(query: str, results: list[str], state: str) -> None:
    assert orders(query, 71, results, state) == ["turn 2: 71 of cancel_order could as well be 72"]


def test_both_of_two_may_be_meant_and_codes_be_spoken_of() -> None:
    turns = (
        Turn("Look.", (Call("look", {}),)),
        Turn("Cancel.", (Call("f", {"x": 71}), Call("f", {"x": 72}))),
    )
    task = Task("t", TaskType.BASE, ("TradingBot",), {}, turns)
    assert ambiguous(task, Exposure(((TWO,), ("", "")), ("{}", "{}"), ())) == []
    assert orders("Sell Apple.", "AAPL", ['["AAPL", "TSLA"]']) == []


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(0, 99) | st.text(), lambda x: st.lists(x, max_size=3)
    )
)
def test_any_result_can_be_searched(result: Any) -> None:
    assert isinstance(orders("Cancel it.", 71, [str(result)]), list)


# Units


def disagree(query: str, name: str, **arguments: Any) -> bool:
    return bool(units.mismatches(query, [Call(name, arguments)], DOCS))


@pytest.mark.parametrize(
    ("query", "name", "arguments"),
    [
        ("Add 30 liters of fuel.", "fillFuelTank", {"fuelAmount": 30}),
        ("Add 30.0-litre fuel.", "fillFuelTank", {"fuelAmount": 30}),
        ("Can I drive 1,200 km?", "estimate_drive_feasibility_by_mileage", {"distance": 1200.0}),
        ("Can I drive 450km?", "estimate_drive_feasibility_by_mileage", {"distance": 450}),
        ("Keep 50 feet away.", "setCruiseControl", {"distanceToNextVehicle": 50, "speed": 60}),
        ("Go 65 km/h.", "setCruiseControl", {"speed": 65, "distanceToNextVehicle": 10}),
        ("A budget of 2000 euros.", "set_budget_limit", {"budget_limit": 2000}),
        ("A budget of €2,000, please.", "set_budget_limit", {"budget_limit": 2000}),
        ("Heat to 72 °F.", "adjustClimateControl", {"temperature": 72, "unit": "celsius"}),
        (
            "$500 in euros?",
            "compute_exchange_rate",
            {"base_currency": "EUR", "target_currency": "USD", "value": 500},
        ),
        (
            "How much are 5 miles?",
            "imperial_si_conversion",
            {"value": 5, "unit_in": "km", "unit_out": "miles"},
        ),
    ],
)
def test_numbers_taken_over_in_the_wrong_unit(query: str, name: str, arguments: dict[str, Any]) -> None:
    assert disagree(query, name, **arguments)


@pytest.mark.parametrize(
    ("query", "name", "arguments"),
    [
        ("Add 30 liters of fuel.", "fillFuelTank", {"fuelAmount": 7.93}),
        ("Add 30 gallons of fuel.", "fillFuelTank", {"fuelAmount": 30}),
        ("Add 30.", "fillFuelTank", {"fuelAmount": 30}),
        ("It is 30 km away; add 30 to the tank.", "fillFuelTank", {"fuelAmount": 30}),
        ("30 gallons, that is not 30 liters!", "fillFuelTank", {"fuelAmount": 30}),
        ("How many gallons are 30 liters?", "liter_to_gallon", {"liter": 30}),
        ("A budget of $2,000.", "set_budget_limit", {"budget_limit": 2000}),
        ("Heat to 72 fahrenheit.", "adjustClimateControl", {"temperature": 72, "unit": "fahrenheit"}),
        (
            "500 dollars?",
            "compute_exchange_rate",
            {"base_currency": "USD", "target_currency": "EUR", "value": 500},
        ),
        ("130 litersome things", "fillFuelTank", {"fuelAmount": 30}),
        ("Buy 100 at 50 euros.", "place_order", {"amount": 100, "price": 50}),
        ("Lots of liters: 1.30 liters", "fillFuelTank", {"fuelAmount": 30}),
        ("30 liters", "no_such_function", {"fuelAmount": 30}),
    ],
)
def test_numbers_that_are_right_or_prove_nothing(query: str, name: str, arguments: dict[str, Any]) -> None:
    assert not disagree(query, name, **arguments)


def test_a_clarification_counts_with_the_message_before_it() -> None:
    fill = Call("fillFuelTank", {"fuelAmount": 30})
    turns = (Turn("Put 30 liters in.", ()), Turn("Into the tank.", (fill,)), Turn("And now?", (fill,)))
    task = Task("t", TaskType.MISS_PARAM, ("VehicleControlAPI",), {}, turns)
    (found,) = coherence.disagreeing_units(task, DOCS)
    assert found.startswith(
        "turn 2: fillFuelTank: fuelAmount=30 is expected in gallon, the message says liter"
    )


@given(st.text(), st.floats(allow_nan=False))
def test_no_text_breaks_the_units(text: str, value: float) -> None:
    assert isinstance(units.mismatches(text, [Call("fillFuelTank", {"fuelAmount": value})], DOCS), list)


# Withheld values


def test_a_value_in_figures_or_words_is_told() -> None:
    assert withholding.told(250, ["Take 250."])
    assert withholding.told(3, ["Take three of them."])
    assert withholding.told("Plan.md", ["About plan.md, please."])
    assert not withholding.told(25, ["Take 250, or 2 and 5."])
    assert not withholding.told("plan", ["All that is planned."])
    assert not withholding.told(True, ["Yes, 1."])


def test_a_value_in_a_result_is_shown() -> None:
    assert withholding.shown(71, [TWO])
    assert withholding.shown("Tesla", ['{"text": "Shares of Tesla rose."}'])
    assert not withholding.shown(7, [TWO])
    assert not withholding.shown("Tes", [TWO, "no JSON"])


def test_defaults_and_single_options_are_documented() -> None:
    assert withholding.documented(10, {"default": 10})
    assert withholding.documented("a", {"enum": ["a"]})
    assert not withholding.documented("a", {"enum": ["a", "b"]})
    assert not withholding.documented("a", {"description": "a"})


def test_the_only_thing_of_its_kind() -> None:
    folder = {"type": "directory", "contents": {}}
    one = {"contents": {"a.txt": {"type": "file"}, "docs": folder}}
    two = {"contents": {"a.txt": {"type": "file"}, "b.txt": {"type": "file"}}}
    assert withholding.only_one("a.txt", "file_name", one)
    assert not withholding.only_one("a.txt", "file_name", two)
    assert not withholding.only_one("a.txt", "file_name", {"x": one, "y": two})
    assert withholding.only_one("docs", "folder", one)
    assert not withholding.only_one("new.txt", "file_name", one)
    assert withholding.only_one("t1", "access_token", {"access_token": "t1", "cards": {}})
    assert not withholding.only_one("t1", "access_token", [{"access_token": "t1"}, {"access_token": "t2"}])
    assert not withholding.only_one(5000, "amount", {"balance": 5000})
