"""Many worlds and what happens in them; run as a script, it prints one digest a world.

`python isolation_worlds.py fresh` gives every world a process of its own, forked from one that never made any;
`python isolation_worlds.py interleaved SEED` keeps all worlds open and makes their calls in a random order.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import parity
from benchmarks.mutations import to_call
from rods.simulation import calls
from rods.simulation.functions import documentation
from rods.simulation.session import World, open_world
from rods.tasks.bfcl_package import CLASSES, simulator
from rods.tasks.model import Call, Task

WORLDS = 1000
# Calls that meet what the official simulators share between instances, or take from the process.
HAZARDS = {
    "TwitterAPI": [
        Call("authenticate_twitter", {"username": "john", "password": "john123"}),
        Call("post_tweet", {"content": "x"}),
        Call("mention", {"tweet_id": 0, "mentioned_usernames": ["@x"]}),
        Call("post_tweet", {"content": "y"}),
        Call("get_user_tweets", {"username": "john"}),
    ],
    "MathAPI": [
        Call("logarithm", {"value": 3, "base": 7, "precision": 90}),
        Call("square_root", {"number": 3, "precision": 60}),
        Call("logarithm", {"value": 3, "base": 7, "precision": 4}),
        Call("power", {"base": 1.1, "exponent": 0.3}),
    ],
    "TravelAPI": [
        Call("get_all_credit_cards", {}),
        Call(
            "register_credit_card",
            {
                "access_token": "t",
                "card_number": "1",
                "expiration_date": "12/2030",
                "cardholder_name": "a",
                "card_verification_number": 1,
            },
        ),
        Call(
            "verify_traveler_information",
            {"first_name": "a", "last_name": "b", "date_of_birth": "2008-01-01", "passport_number": "1"},
        ),
    ],
    "VehicleControlAPI": [
        Call("get_outside_temperature_from_google", {}),
        Call("get_current_speed", {}),
        Call("get_outside_temperature_from_google", {}),
    ],
    "TicketAPI": [
        Call("ticket_login", {"username": "a", "password": "b"}),
        Call("create_ticket", {"title": "t"}),
        Call("edit_ticket", {"ticket_id": 1, "updates": {"zeta": 1, "alpha": 2, "mid": 3}}),
    ],
    "MessageAPI": [Call("add_contact", {"user_name": "z"}), Call("get_message_stats", {})],
    "TradingBot": [
        Call("get_current_time", {}),
        Call("update_market_status", {"current_time_str": "10:00 AM"}),
    ],
    "GorillaFileSystem": [
        Call("cp", {"source": ".", "destination": "copy"}),
        Call("find", {}),
        Call("du", {}),
    ],
}


@dataclass(frozen=True)
class Script:
    """A world and the calls that are made in it."""

    task: Task
    calls: tuple[Call, ...]


def scripts() -> list[Script]:
    """1,000 worlds over all 800 scenarios, each with changed ground-truth calls among hazardous ones."""
    made = []
    for number, trajectory in enumerate(parity.trajectories(WORLDS, seed=7)):
        classes = trajectory.task.classes
        texts = [text for steps in trajectory.turns for step in steps for text in step]
        script = [to_call(text, classes) for text in texts[:40]]
        hazards = [call for name in classes for call in HAZARDS[name]] + extension_card(trajectory.task)
        at = random.Random(number).randint(0, len(script))
        made.append(Script(trajectory.task, (*script[:at], *hazards, *script[at:])))
    return made


def extension_card(task: Task) -> list[Call]:
    """Calls that charge a credit card which all long-context scenarios have from the package."""
    state = task.initial_state.get("TravelAPI", {})
    if not state.get("access_token") or not state.get("booking_record"):
        return []
    card = {"access_token": state["access_token"], "card_id": "1234567812345678"}
    insurance = {
        "insurance_type": "travel",
        "insurance_cost": 7.0,
        "booking_id": next(iter(state["booking_record"])),
    }
    flight = {"travel_date": "2024-10-10", "travel_from": "SFO", "travel_to": "LAX", "travel_class": "royal"}
    return [
        Call("purchase_insurance", {**card, **insurance}),
        Call("get_credit_card_balance", card),
        Call("book_flight", {**card, **flight}),  # its error prints a set
    ]


def digest(world: World, results: Sequence[str]) -> str:
    """Of all results and the final state."""
    text = json.dumps([results, world.state()], default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def alone(script: Script) -> str:
    """One world from beginning to end."""
    world = open_world(script.task)
    return digest(world, [world.execute(call).text for call in script.calls])


def interleaved(chosen: Sequence[Script], seed: int) -> list[str]:
    """All worlds at once, one call here, one call there; digests in the order of `chosen`."""
    worlds = [open_world(script.task) for script in chosen]
    results: list[list[str]] = [[] for _ in chosen]
    order = [index for index, script in enumerate(chosen) for _ in script.calls]
    random.Random(seed).shuffle(order)
    for index in order:
        results[index].append(worlds[index].execute(chosen[index].calls[len(results[index])]).text)
    return [digest(world, texts) for world, texts in zip(worlds, results, strict=True)]


def fresh(chosen: Sequence[Script]) -> list[str]:
    """Each world in a forked process that ends after it; code is loaded before, no world was ever made."""
    for doc in documentation(CLASSES).values():
        simulator(doc.class_name)
        calls._checkers(doc)
    gc.freeze()  # a child that collects would copy the parent's memory
    return [_forked(script) for script in chosen]


def _forked(script: Script) -> str:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, alone(script).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="ascii") as pipe:
        found = pipe.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, script.task.id
    return found


if __name__ == "__main__":
    mode, *rest = sys.argv[1:]
    print(json.dumps(fresh(scripts()) if mode == "fresh" else interleaved(scripts(), int(rest[0]))))
