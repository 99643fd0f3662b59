"""What `benchmarks.exchange` asks of a queue, and ours behind it."""

from __future__ import annotations

import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from rods.config import ExchangeConfig
from rods.exchange.queue import Message, Queue

# Claims of workers that are known to be dead are taken back at once.
EXPIRED_S = 0.01
_FILLER = "The quick brown fox books a flight to Paris, then asks for the receipt. " * 55
TORN = "(torn)"
Delivery = tuple[Any, list[str]]


def body(key: str) -> dict[str, Any]:
    """A message of about 4 kB."""
    return {"key": key, "text": _FILLER}


def encode(key: str) -> bytes:
    return json.dumps(body(key)).encode()


def key_of(data: bytes | str | memoryview) -> str:
    """The key of a message that was taken; TORN for one that a killed producer left unfinished."""
    try:
        key = json.loads(data if isinstance(data, str) else bytes(data))["key"]
    except ValueError:
        return TORN
    assert isinstance(key, str)
    return key


class System(ABC):
    """One queue under `folder`, as one process has it open.

    Attributes:
        name: with its version.
        durable: a put and an ack are on the disk when they return.
        shared: made of what a shared filesystem keeps atomic: no SQLite, no flock, and claims at all.
        per_put: messages that one put takes.
    """

    name: ClassVar[str]
    durable: ClassVar[bool] = True
    shared: ClassVar[bool] = False
    per_put: ClassVar[int] = 1

    @abstractmethod
    def __init__(self, folder: Path) -> None: ...

    @abstractmethod
    def put(self, keys: Sequence[str]) -> None:
        """Publish up to `per_put` messages."""

    @abstractmethod
    def take(self) -> Delivery | None:
        """The next delivery: a ticket for `ack`, and keys; None when there is nothing to take."""

    def ack(self, ticket: Any) -> None:
        """The effects of a delivery were applied. Without an ack the delivery ends when it is taken."""
        del ticket

    def recover(self) -> None:  # noqa: B027 - most have nothing to offer
        """What the queue offers to get back the deliveries of dead workers; nobody else is at work."""


class Ours(System):
    """As the product uses it: seeds in batches."""

    name = "ours"
    shared = True
    per_put = ExchangeConfig().seed_batch

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._queue = Queue(folder)

    def put(self, keys: Sequence[str]) -> None:
        self._queue.put_many([Message(key, body(key)) for key in keys], self.per_put)

    def take(self) -> Delivery | None:
        claim = self._queue.claim(f"benchmark:{os.getpid()}")
        return None if claim is None else (claim, [one.key for one in claim.messages])

    def ack(self, ticket: Any) -> None:
        ticket.commit()

    def recover(self) -> None:
        time.sleep(2 * EXPIRED_S)
        Queue(self._folder, lease_s=EXPIRED_S).reap()


class OursSingle(Ours):
    """One message per file."""

    name = "ours, single messages"
    per_put = 1
