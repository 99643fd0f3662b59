"""Fresh initial states for scripted tasks: a workspace, a ticket queue, a circle of contacts."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rods.tasks.scripted_words import DIRECTORIES, PEOPLE, fresh_file, random_text

FILES, TICKETS, MESSAGES = "GorillaFileSystem", "TicketAPI", "MessageAPI"
CLASSES = (FILES, TICKETS, MESSAGES)


def random_state(rng: random.Random, classes: Sequence[str]) -> dict[str, Any]:
    """An initial state, class name → scenario, for some of the three classes that scripted tasks use.

    Raises:
        KeyError: another class.
    """
    return {name: _SCENARIOS[name](rng) for name in classes}


def _workspace(rng: random.Random) -> dict[str, Any]:
    """2–3 files, and 2–3 directories of 1–2 files each."""
    contents: dict[str, Any] = {}
    for _ in range(rng.randint(2, 3)):
        contents[fresh_file(rng, contents)] = _file(rng)
    for directory in rng.sample(DIRECTORIES, rng.randint(2, 3)):
        inside: dict[str, Any] = {}
        for _ in range(rng.randint(1, 2)):
            inside[fresh_file(rng, inside)] = _file(rng)
        contents[directory] = {"type": "directory", "contents": inside}
    return {"root": {"workspace": {"type": "directory", "contents": contents}}}


def _file(rng: random.Random) -> dict[str, str]:
    return {"type": "file", "content": "\n".join(random_text(rng) for _ in range(rng.randint(1, 4)))}


def _queue(rng: random.Random) -> dict[str, Any]:
    """2–3 tickets with neighbouring numbers of two or three digits, most of them open and the user's own."""
    user, colleague = rng.sample(PEOPLE, 2)
    first, count = rng.randint(12, 890), rng.randint(2, 3)
    queue = [
        {
            "id": first + place,
            "title": random_text(rng),
            "description": "",
            "status": rng.choice(("Open", "Open", "Open", "Resolved")),
            "priority": rng.randint(1, 5),
            "created_by": rng.choice((user, user, colleague)),
        }
        for place in range(count)
    ]
    return {"ticket_queue": queue, "ticket_counter": first + count, "current_user": user}


def _circle(rng: random.Random) -> dict[str, Any]:
    """3–5 people with user ids, 2–3 messages to some of them; one is logged in."""
    people = rng.sample(PEOPLE, rng.randint(3, 5))
    ids = [f"USR{number:03d}" for number in range(1, len(people) + 1)]
    inbox = [{rng.choice(ids): random_text(rng)} for _ in range(rng.randint(2, 3))]
    return {
        "user_count": len(people),
        "user_map": dict(zip(people, ids, strict=True)),
        "inbox": inbox,
        "message_count": len(inbox),
        "current_user": rng.choice(ids),
    }


_SCENARIOS: Mapping[str, Callable[[random.Random], dict[str, Any]]] = {
    FILES: _workspace,
    TICKETS: _queue,
    MESSAGES: _circle,
}
