"""Worlds: results as BFCL renders them, bounded calls, no leak from one world to another."""

from __future__ import annotations

import copy
import decimal
import json
import random
import sys
from typing import Any

import pytest

from rods.simulation.isolation import ScenarioError
from rods.simulation.session import World
from rods.tasks.bfcl_package import CLASSES, UnknownClassError, simulator
from rods.tasks.model import Call

TREE = {
    "root": {"home": {"type": "directory", "contents": {"a.txt": {"type": "file", "content": "one\ntwo"}}}}
}


def text(world: World, name: str, **arguments: Any) -> str:
    return world.execute(Call(name, arguments)).text


def tweets(**state: Any) -> World:
    return World(["TwitterAPI"], {"TwitterAPI": {"authenticated": True, **state}})


def test_results_are_rendered_as_bfcl_does() -> None:
    world = World(["GorillaFileSystem", "MathAPI", "TravelAPI"], {"GorillaFileSystem": TREE})
    assert text(world, "cat", file_name="a.txt") == '{"file_content": "one\\ntwo"}'
    assert text(world, "mkdir", dir_name="b") == "None"
    assert text(world, "square_root", number=2, precision=5) == "{'result': Decimal('1.4142')}"
    assert text(world, "list_all_airports").startswith("['RMS', 'SBK'")
    assert text(world, "divide", a=1, b=0) == '{"error": "Cannot divide by zero"}'


def test_failed_marks_refusals_exceptions_and_returned_errors() -> None:
    world = World(["GorillaFileSystem", "TradingBot", "TravelAPI"], {})
    assert not world.execute(Call("ls", {})).failed
    assert world.execute(Call("cd", {"folder": "nowhere"})).failed
    assert world.execute(Call("get_order_history", {})).failed
    assert world.execute(Call("cd", {})).failed
    raised = world.execute(
        Call("compute_exchange_rate", {"base_currency": "X", "target_currency": "Y", "value": 1})
    )
    assert raised.failed
    assert raised.text == "Error during execution: No available exchange rate for the given currencies."


def test_only_documented_functions_of_the_classes_can_be_called() -> None:
    world = World(["MathAPI"], {})
    for name in ("ls", "_load_scenario", "__class__", "__init__"):
        result = world.execute(Call(name, {}))
        assert result.failed
        assert "there is no function" in result.text


def test_withheld_functions_do_not_exist_until_restored() -> None:
    world = World(["GorillaFileSystem"], {}, withheld=["ls", "pwd"])
    assert "ls" not in world.docs
    assert world.execute(Call("ls", {})).failed
    assert [doc.name for doc in world.restore(["ls", "cat"])] == ["ls"]
    assert not world.execute(Call("ls", {})).failed
    assert world.execute(Call("pwd", {})).failed
    assert world.restore(["ls"]) == ()


def test_state_is_public_json_in_the_form_of_scenarios() -> None:
    world = World(["GorillaFileSystem", "MessageAPI"], {"GorillaFileSystem": TREE})
    world.execute(Call("mkdir", {"dir_name": "b"}))
    state = world.state()
    json.dumps(state)
    assert state["GorillaFileSystem"]["root"]["home"]["contents"]["b"] == {
        "type": "directory",
        "contents": {},
    }
    assert state["GorillaFileSystem"]["root"]["home"]["contents"]["a.txt"]["content"] == "one\ntwo"
    assert not [name for public in state.values() for name in public if name.startswith("_")]
    again = World(["GorillaFileSystem"], {"GorillaFileSystem": {"root": state["GorillaFileSystem"]["root"]}})
    assert again.state()["GorillaFileSystem"] == state["GorillaFileSystem"]


@pytest.mark.parametrize(
    ("classes", "state", "error"),
    [
        (["NoAPI"], {}, UnknownClassError),
        (
            ["GorillaFileSystem"],
            {"GorillaFileSystem": {"root": {"home": {"type": "directory"}}}},
            ScenarioError,
        ),
        (["GorillaFileSystem"], {"GorillaFileSystem": {"root": {}}}, ScenarioError),
        (["GorillaFileSystem"], {"GorillaFileSystem": []}, ScenarioError),
        (["TwitterAPI"], {"TwitterAPI": {"tweets": {"first": {}}}}, ScenarioError),
        (["TravelAPI"], {"TravelAPI": {"random_seed": None}}, ScenarioError),
        (["TravelAPI"], {"TravelAPI": {"random_seed": [1]}}, ScenarioError),
    ],
)
def test_a_state_that_cannot_be_loaded_is_refused(
    classes: list[str], state: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        World(classes, state)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("power", {"base": 10, "exponent": 10**9}),
        ("power", {"base": -3, "exponent": 10**300}),
        ("logarithm", {"value": 3, "base": 2, "precision": 10**9}),
        ("square_root", {"number": 2, "precision": 10**8}),
        ("round_number", {"number": 5, "decimal_places": -(10**9)}),
    ],
)
def test_calls_that_would_not_return_are_refused(name: str, arguments: dict[str, Any]) -> None:
    assert World(["MathAPI"], {}).execute(Call(name, arguments)).failed


def test_ordinary_powers_are_computed() -> None:
    world = World(["MathAPI"], {})
    assert text(world, "power", base=2, exponent=100) == f'{{"result": {2**100}}}'
    assert text(world, "power", base=1, exponent=10**9) == '{"result": 1}'
    assert text(world, "power", base=2, exponent=-1) == '{"result": 0.5}'


def test_a_directory_inside_itself_does_not_hang_a_walk() -> None:
    world = World(["GorillaFileSystem"], {})
    text(world, "mkdir", dir_name="a")
    text(world, "cp", source="a", destination="a")
    for name in ("find", "du"):
        assert "contains itself" in text(world, name)
    json.dumps(world.state())


def test_default_arguments_belong_to_one_world() -> None:
    first, second = tweets(), tweets()
    text(first, "post_tweet", content="hello")
    text(first, "mention", tweet_id=0, mentioned_usernames=["@x"])
    assert '"mentions": []' in text(second, "post_tweet", content="hello")
    assert '"mentions": []' in text(tweets(), "post_tweet", content="hello")
    assert simulator("TwitterAPI").post_tweet.__defaults__ == ([], [])


def test_within_a_world_default_arguments_stay_shared_as_officially() -> None:
    world = tweets()
    text(world, "post_tweet", content="one")
    text(world, "post_tweet", content="two")
    text(world, "mention", tweet_id=0, mentioned_usernames=["@x"])
    assert '"mentions": ["@x"]' in text(world, "get_tweet", tweet_id=1)


def test_a_world_changes_neither_its_scenario_nor_the_callers_arguments() -> None:
    state = {"TwitterAPI": {"authenticated": True, "following_list": ["a"]}}
    before = copy.deepcopy(state)
    world = World(["TwitterAPI"], state)
    text(world, "follow_user", username_to_follow="b")
    call = Call("post_tweet", {"content": "x", "mentions": ["@a"]})
    world.execute(call)
    text(world, "mention", tweet_id=0, mentioned_usernames=["@b"])
    assert state == before
    assert call == Call("post_tweet", {"content": "x", "mentions": ["@a"]})


def travel() -> World:
    state = {"access_token": "t", "token_expires_in": 9}
    return World(["TravelAPI"], {"TravelAPI": state}, long_context=True)


def test_long_context_rows_belong_to_one_world() -> None:
    card = "1234567812345678"
    first = travel()
    booking = {
        "travel_date": "2024-11-11",
        "travel_from": "SFO",
        "travel_to": "LAX",
        "travel_class": "economy",
    }
    text(first, "book_flight", access_token="t", card_id=card, **booking)
    assert (
        text(first, "get_credit_card_balance", access_token="t", card_id=card) != '{"card_balance": 5000.0}'
    )
    fresh = text(travel(), "get_credit_card_balance", access_token="t", card_id=card)
    assert fresh == '{"card_balance": 5000.0}'


def module_constants() -> str:
    """The upper-case names of all simulator modules, as text."""
    modules = {simulator(name).__module__ for name in CLASSES}
    modules |= {name for name in sys.modules if name.endswith("func_source_code.long_context")}
    return repr(
        [
            (m, key, value)
            for m in sorted(modules)
            for key, value in vars(sys.modules[m]).items()
            if key.isupper()
        ]
    )


def test_using_a_long_context_world_leaves_the_modules_as_they_were() -> None:
    World(CLASSES, {}, long_context=True)
    before = module_constants()
    world = World(CLASSES, {}, long_context=True)
    for doc in world.docs.values():
        if not doc.parameters["required"]:
            world.execute(Call(doc.name, {}))
    for row in world.simulators["TravelAPI"].instance.credit_card_list.values():
        row["balance"] = -1
    assert module_constants() == before


def test_process_settings_are_neither_changed_nor_used() -> None:
    mpmath = pytest.importorskip("mpmath")
    random.seed(7)
    state, precision = random.getstate(), mpmath.mp.prec
    with decimal.localcontext() as context:
        context.rounding = decimal.ROUND_UP
        context.prec = 3
        world = World(CLASSES, {})
        assert "1.4142135624" in text(world, "square_root", number=2, precision=11)
        text(world, "logarithm", value=3, base=2, precision=50)
        text(world, "logarithm", value=0, base=2, precision=50)
        text(world, "gallon_to_liter", gallon=1)
        text(world, "get_outside_temperature_from_google")
        assert decimal.getcontext().prec == 3
    assert random.getstate() == state
    assert mpmath.mp.prec == precision


def test_the_day_of_the_run_does_not_matter() -> None:
    world = World(["TravelAPI"], {"TravelAPI": {"user_first_name": "A", "user_last_name": "B"}})
    person = {"first_name": "A", "last_name": "B", "passport_number": "US1"}
    adult = text(world, "verify_traveler_information", date_of_birth="2006-09-01", **person)
    minor = text(world, "verify_traveler_information", date_of_birth="2006-09-02", **person)
    assert adult == '{"verification_status": true}'
    assert "at least 18" in minor
    assert "Invalid date" in text(world, "verify_traveler_information", date_of_birth="today", **person)


def test_an_error_text_does_not_depend_on_the_hash_seed() -> None:
    queue = [{"id": 1, "status": "Open", "created_by": "a"}]
    world = World(["TicketAPI"], {"TicketAPI": {"ticket_queue": queue}})
    fields = dict.fromkeys(("zeta", "alpha", "mid", "beta"), 1)
    found = text(world, "edit_ticket", ticket_id=1, updates={**fields, "status": "Closed"})
    assert found == '{"error": "Invalid fields for update: alpha, beta, mid, zeta"}'
    assert "successfully" in text(world, "edit_ticket", ticket_id=1, updates={"status": "Closed"})


def test_worlds_give_equal_results_whatever_ran_before() -> None:
    def trace() -> list[str]:
        world = World(CLASSES, {}, long_context=True)
        simple = [doc.name for doc in world.docs.values() if not doc.parameters["required"]]
        return [text(world, name) for name in simple * 2]

    assert trace() == trace()
