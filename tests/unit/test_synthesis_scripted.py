"""The rules of the scripted backend: which values change and how, and what its messages say."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rods.simulation.functions import FunctionDoc, documentation
from rods.synthesis import rules, scripted_world
from rods.synthesis import scripted_messages as messages
from rods.synthesis.scripted_literals import Surroundings, adapted, change_rate, world_values
from rods.tasks.model import Call

DOCS: dict[str, FunctionDoc] = documentation(
    ["GorillaFileSystem", "TradingBot", "VehicleControlAPI", "TravelAPI"]
)
AROUND = Surroundings((), (), frozenset(), {}, {}, DOCS["touch"], 1.0, 7)


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


STATE = {
    "GorillaFileSystem": {
        "root": {
            "workspace": {
                "type": "directory",
                "contents": {
                    "notes.txt": {"type": "file", "content": "one"},
                    "archive": {
                        "type": "directory",
                        "contents": {"notes.txt": {"type": "file", "content": "two"}},
                    },
                },
            }
        }
    },
    "TradingBot": {"stocks": {"AAPL": {"price": 1.0}, "NVDA": {"price": 2.0}}, "market_status": "Open"},
    "MessageAPI": {"user_map": {"Ada": "USR001", "Bob": "USR002"}, "inbox": []},
}


def test_a_world_of_other_names_has_the_same_structure_and_contents() -> None:
    state = scripted_world.renamed(STATE, 3)
    assert state is not None
    called = scripted_world.names(STATE, state)
    assert set(called) == {"workspace", "notes.txt", "archive"}
    assert called["notes.txt"].startswith("notes_")
    assert called["notes.txt"].endswith(".txt")
    back = json.dumps(state)
    for old, new in called.items():
        back = back.replace(f'"{new}"', f'"{old}"')
    assert json.loads(back) == STATE
    assert scripted_world.renamed({"TradingBot": STATE["TradingBot"]}, 3) is None
    assert len({json.dumps(scripted_world.renamed(STATE, salt)) for salt in range(9)}) > 3


def test_two_names_of_a_folder_never_become_one() -> None:
    entries = {
        f"a{suffix}": {"type": "file", "content": suffix} for suffix in ("bc", "bc_alt", "bc_new", "bc_v2")
    }
    for salt in range(50):
        state = scripted_world.renamed({"GorillaFileSystem": {"root": entries}}, salt)
        assert state is not None
        assert len(state["GorillaFileSystem"]["root"]) == len(entries)


def test_renamed_files_are_called_by_their_new_names_also_in_paths_and_after_a_patch() -> None:
    state = scripted_world.renamed(STATE, 3)
    assert state is not None
    patched = {**state, "TradingBot": {**STATE["TradingBot"], "market_status": "Closed"}}
    called = scripted_world.names(STATE, patched)
    around = replace(AROUND, world=world_values(STATE), names=called, rate=0.0)
    assert adapted("archive/notes.txt", around) == f"{called['archive']}/{called['notes.txt']}"
    assert adapted("Open", around) == "Open"


def test_one_of_several_of_a_kind_may_be_another_of_them() -> None:
    peers = scripted_world.peers(STATE)
    assert peers == {"AAPL": ("NVDA",), "NVDA": ("AAPL",), "USR001": ("USR002",), "USR002": ("USR001",)}
    around = replace(AROUND, world=world_values(STATE), peers=peers, doc=DOCS["place_order"])
    assert [adapted(value, around) for value in ("AAPL", "USR002", "Open")] == ["NVDA", "USR001", "Open"]
    assert adapted("AAPL", replace(around, rate=0.0)) == "AAPL"


def test_a_date_stays_in_its_month() -> None:
    around = replace(AROUND, doc=DOCS["book_flight"])
    found = {adapted("2026-02-14", replace(around, salt=salt)) for salt in range(30)}
    assert len(found) > 9
    assert all(re.fullmatch(r"2026-02-(0[1-9]|1\d|2[0-8])", date) for date in found)
