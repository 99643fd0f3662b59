"""The rules of the scripted backend: which values change and how, and what its messages say."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rods.simulation.functions import FunctionDoc, documentation
from rods.synthesis import rules
from rods.synthesis import scripted_messages as messages
from rods.synthesis.scripted_literals import Surroundings, adapted, change_rate, world_values
from rods.tasks.model import Call

DOCS: dict[str, FunctionDoc] = documentation(
    ["GorillaFileSystem", "TradingBot", "VehicleControlAPI", "TravelAPI"]
)
AROUND = Surroundings((), (), frozenset(), DOCS["touch"], 1.0, 7)


def test_a_value_that_flows_is_taken_from_the_variants_own_result() -> None:
    around = replace(
        AROUND,
        seed_results=[json.dumps({"order_id": 12446, "symbol": "AAPL"}), "{}"],
        results=[json.dumps({"order_id": 991, "symbol": "MSFT"}), "{}"],
    )
    assert adapted({"id": 12446, "stock": ["AAPL"]}, around) == {"id": 991, "stock": ["MSFT"]}
    assert adapted("12446", around) == "991"


def test_a_result_of_another_form_leaves_the_value() -> None:
    around = replace(AROUND, seed_results=['{"id": 12446}'], results=['{"error": "none", "id": 5}'])
    assert adapted(12446, around) == 12446


def test_what_names_the_world_stays() -> None:
    world = world_values({"C": {"files": {"notes.txt": {"size": 120}}}})
    around = replace(AROUND, world=world)
    assert [adapted(value, around) for value in ("notes.txt", 120, "files")] == ["notes.txt", 120, "files"]
    assert adapted("fresh.txt", around) != "fresh.txt"


def test_options_of_the_documentation_and_accidental_values_stay() -> None:
    around = replace(AROUND, doc=DOCS["displayCarStatus"])
    kept = ["fuel", "battery", True, None, "", "..", 0, 1]
    assert [adapted(value, around) for value in kept] == kept


def test_the_same_literal_changes_alike_everywhere_and_differently_by_salt() -> None:
    name = adapted("archive", AROUND)
    assert name.startswith("archive_")
    assert adapted({"x": ["archive"]}, replace(AROUND, doc=DOCS["cd"])) == {"x": [name]}
    assert len({adapted("archive", replace(AROUND, salt=salt)) for salt in range(20)}) > 3


def test_names_keep_their_extension_prose_and_tags_their_text() -> None:
    assert adapted("report.pdf", AROUND).startswith("report_")
    assert adapted("report.pdf", AROUND).endswith(".pdf")
    assert adapted("Please call me back soon.", AROUND).endswith(": Please call me back soon.")
    assert adapted("#travel", AROUND).startswith("#travel")


def test_without_a_change_rate_nothing_changes() -> None:
    around = replace(AROUND, rate=0.0)
    assert [adapted(value, around) for value in ("report.pdf", 250, 3.5)] == ["report.pdf", 250, 3.5]
    assert change_rate(1) > change_rate(2) > change_rate(3) == change_rate(9)


@given(st.one_of(st.integers(-(10**6), 10**6), st.floats(-1e6, 1e6, allow_nan=False)))
def test_numbers_keep_type_sign_and_size(value: float) -> None:
    found = adapted(value, AROUND)
    assert type(found) is type(value)
    assert abs(found - value) <= 0.2 * abs(value) + 1
    assert found * value >= 0


@pytest.mark.parametrize("name", sorted(DOCS))
def test_messages_name_no_function_and_no_parameter(name: str) -> None:
    doc = DOCS[name]
    call = Call(name, dict.fromkeys(doc.parameters["properties"], "value"))
    for variety in range(5):
        text = messages.request(call, doc, variety)
        assert rules.named_functions([text], [call], DOCS) == []
        assert text.count("'value'") == len(call.arguments)
        assert text[-1] in ".?"


def test_unsaid_and_omitted_values_are_not_said() -> None:
    call = Call("mv", {"source": "a.txt", "destination": "docs"})
    assert "a.txt" not in messages.request(call, DOCS["mv"], 0, unsaid={"source"})
    assert messages.FROM_RESULTS in messages.request(call, DOCS["mv"], 0, unsaid={"source"})
    text = messages.request(call, DOCS["mv"], 0, omitted={"destination"})
    assert "docs" not in text
    assert messages.FROM_RESULTS not in text
    assert "'docs'" in messages.clarification(call, DOCS["mv"], ["destination"])


def test_values_are_said_as_people_write_them() -> None:
    assert messages.say([True, "a", 2]) == "yes, 'a', 2"
    assert messages.say({"first_name": "Ada"}) == "first name 'Ada'"
    assert messages.say([]) == "none"
    assert messages.purpose(DOCS["pressBrakePedal"]).startswith("press the brake pedal")
