"""The variables of requests about tickets and messages."""

from __future__ import annotations

import random
from typing import Any

from rods.tasks.scripted_slots import Bindings, Slot, is_text, listed, pick
from rods.tasks.scripted_words import PEOPLE, WORDS, random_text
from rods.tasks.scripted_world import LiveWorld

_STATUSES = ("Open", "Closed", "Resolved")


def _open_tickets(world: LiveWorld) -> list[int]:
    return [number for number, ticket in world.tickets().items() if ticket["status"] == "Open"]


def _second_ticket(world: LiveWorld, bound: Bindings, rng: random.Random) -> int | None:
    """Another open ticket; needs `open_ticket` to be bound."""
    return pick(rng, [number for number in _open_tickets(world) if number != bound["open_ticket"]])


def _next_ticket(world: LiveWorld, _: Bindings, __: random.Random) -> int:
    return world.next_ticket()


def _ticket_title(world: LiveWorld, bound: Bindings, _: random.Random) -> str:
    return str(world.tickets()[bound["ticket"]]["title"])


def _user_ids(world: LiveWorld) -> list[str]:
    return list(world.people().values())


def _receivers(world: LiveWorld) -> list[str]:
    """User ids that somebody has written to."""
    return sorted({receiver for receiver, _ in world.messages()})


def _pen_friends(world: LiveWorld) -> list[str]:
    """People whom somebody has written to."""
    return [name for name, user in world.people().items() if user in _receivers(world)]


def _user_id(world: LiveWorld, bound: Bindings, _: random.Random) -> str:
    return world.people()[bound["person"]]


def _friend_id(world: LiveWorld, bound: Bindings, _: random.Random) -> str:
    return world.people()[bound["pen_friend"]]


def _next_id(world: LiveWorld, _: Bindings, __: random.Random) -> str:
    return world.next_user_id()


def _newcomer(world: LiveWorld, _: Bindings, rng: random.Random) -> str:
    return rng.choice([name for name in PEOPLE if name not in world.people()])


def _keyword(world: LiveWorld, _: Bindings, rng: random.Random) -> str:
    """Mostly a word of a message."""
    words = [word for _, text in world.messages() for word in text.split()]
    return rng.choice(words) if words and rng.random() < 0.7 else rng.choice(WORDS)


def _is_number(value: Any) -> bool:
    return type(value) is int


def _updates(field: str) -> Slot:
    """The argument `{field: value}` of an edit; said as the value."""
    values = {"priority": lambda rng: rng.randint(2, 5), "title": random_text}
    return Slot(
        lambda _, __, rng: {field: values[field](rng)},
        lambda value: isinstance(value, dict) and set(value) == {field},
        lambda value: str(value[field]),
    )


def _ticket(value: Any) -> str:
    return f"ticket {value}"


OFFICE_SLOTS: dict[str, Slot] = {
    "ticket": listed(lambda world: list(world.tickets()), _is_number, _ticket),
    "open_ticket": listed(_open_tickets, _is_number, _ticket),
    "second_ticket": Slot(_second_ticket, _is_number, _ticket),
    "next_ticket": Slot(_next_ticket, _is_number, _ticket),
    "title": Slot(lambda _, __, rng: random_text(rng), is_text, str),
    "priority": Slot(lambda _, __, rng: rng.randint(2, 5), _is_number, str),
    "new_priority": _updates("priority"),
    "new_title": _updates("title"),
    "status": Slot(lambda _, __, rng: rng.choice(_STATUSES), is_text, str.lower),
    "ticket_title": Slot(_ticket_title, is_text, str),
    "receiver": listed(_user_ids, is_text, str),
    "written_to": listed(_receivers, is_text, str),
    "person": listed(lambda world: list(world.people()), is_text, str),
    "person_id": Slot(_user_id, is_text, str),
    "pen_friend": listed(_pen_friends, is_text, str),
    "friend_id": Slot(_friend_id, is_text, str),
    "newcomer": Slot(_newcomer, is_text, str),
    "next_id": Slot(_next_id, is_text, str),
    "keyword": Slot(_keyword, is_text, str),
}
