"""Which messages go when more wait than should: those that would be delivered last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rods.exchange import names
from rods.exchange.message import Message
from rods.exchange.names import ReadyName


def surplus(waiting: Mapping[ReadyName, Iterable[Message]], limit: int) -> dict[ReadyName, set[str]]:
    """Keys to drop per file, so that at most `limit` messages are left: of lowest priority, youngest first.

    Args:
        waiting: the messages in each file.
        limit: at least 0.
    """
    order = sorted(
        (names.rank(one.priority), name.age, name.label, index, one.key, name)
        for name, messages in waiting.items()
        for index, one in enumerate(messages)
    )
    dropped: dict[ReadyName, set[str]] = {}
    for *_, key, name in order[limit:]:
        dropped.setdefault(name, set()).add(key)
    return dropped
