"""File names of queue messages: they carry order and lease, so that one rename changes both at once.

    tmp      <priority>+<key>.<token>.put
    ready    <priority>+<age>+<deliveries>+<key>.json
    claimed  <priority>+<age>+<deliveries>+<key>.<token>.<owner>.lease
    done, quarantine, keys   <key>.json

Priority and age have a fixed width and sort as text, so that a sorted listing is the order of delivery. Keys
come from outside: every character that is not plainly safe is percent-encoded, and so `..`, slashes or a
leading dot cannot leave the folder or hide a file.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass, replace
from urllib.parse import unquote

from rods.errors import RodsError

MAX_KEY_BYTES = 120
MAX_OWNER_BYTES = 40
MAX_DELIVERIES = 9999
_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_PUT = re.compile(r"(?P<rank>[0-9a-f]{16})\+(?P<key>[A-Za-z0-9_%-]+)\.(?P<token>[0-9a-f]{16})\.put")
_READY = re.compile(r"(?P<order>[0-9a-f]{16}\+\d{20})\+(?P<deliveries>\d{4})\+(?P<key>[A-Za-z0-9_%-]+)\.json")
_CLAIMED = re.compile(
    r"(?P<order>[0-9a-f]{16}\+\d{20})\+(?P<deliveries>\d{4})\+(?P<key>[A-Za-z0-9_%-]+)"
    r"\.(?P<token>[0-9a-f]{16})\.(?P<owner>[A-Za-z0-9_%-]+)\.lease"
)
_STORED = re.compile(r"(?P<key>[A-Za-z0-9_%-]+)\.json")


class QueueError(RodsError):
    """A queue cannot do what was asked."""


class InvalidKeyError(QueueError):
    """A key or owner that cannot be part of a file name."""


def encode(text: str, limit: int = MAX_KEY_BYTES) -> str:
    """`text` as a safe file name part of at most `limit` characters; `decode` is its inverse.

    Raises:
        InvalidKeyError: empty, too long once encoded, or not encodable as UTF-8.
    """
    try:
        encoded = "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in text.encode())
    except UnicodeEncodeError as error:
        raise InvalidKeyError(
            f"{text!r} is not valid Unicode text ({error.reason}). Use another key."
        ) from error
    if not 0 < len(encoded) <= limit:
        raise InvalidKeyError(
            f"{text[:200]!r} takes {len(encoded)} characters in a file name, expected 1 to {limit}. "
            "Use another key."
        )
    return encoded


def decode(encoded: str) -> str:
    """The text that `encode` was given."""
    return unquote(encoded)


def rank(priority: float) -> str:
    """16 hexadecimal digits that sort by falling `priority`.

    Raises:
        QueueError: the priority is not a finite number.
    """
    if not math.isfinite(priority):
        raise QueueError(f"priority {priority!r}: expected a finite number.")
    # + 0.0 makes -0.0 equal to 0.0. The bits of a double sort as its value once negatives are inverted.
    (bits,) = struct.unpack(">Q", struct.pack(">d", priority + 0.0))
    rising = bits ^ (2**64 - 1) if bits >> 63 else bits | 1 << 63
    return f"{rising ^ (2**64 - 1):016x}"


@dataclass(frozen=True)
class PutName:
    """A message in tmp/: all that its name in ready/ needs but the age, which is the file's own mtime."""

    rank: str
    key: str
    token: str

    def __str__(self) -> str:
        return f"{self.rank}+{self.key}.{self.token}.put"

    @classmethod
    def parse(cls, name: str) -> PutName | None:
        """None when `name` is no such name."""
        match = _PUT.fullmatch(name)
        return cls(match["rank"], match["key"], match["token"]) if match else None

    def ready(self, age_ns: int) -> ReadyName:
        """The name in ready/ of a message put at `age_ns`, nanoseconds by the file server's clock."""
        return ReadyName(f"{self.rank}+{age_ns:020d}", 0, self.key)


@dataclass(frozen=True)
class ReadyName:
    """A message in ready/.

    Attributes:
        order: priority and age, as text that sorts.
        deliveries: how often it was claimed before.
        key: encoded.
    """

    order: str
    deliveries: int
    key: str

    def __str__(self) -> str:
        return f"{self.order}+{self.deliveries:04d}+{self.key}.json"

    @classmethod
    def parse(cls, name: str) -> ReadyName | None:
        """None when `name` is no such name."""
        match = _READY.fullmatch(name)
        return cls(match["order"], int(match["deliveries"]), match["key"]) if match else None

    def uncounted(self) -> ReadyName:
        """The same message as if its last delivery had not been."""
        return replace(self, deliveries=self.deliveries - 1)


@dataclass(frozen=True)
class ClaimedName:
    """A message in claimed/: `ready` counts this delivery; `token` fences; `owner` is encoded, for people."""

    ready: ReadyName
    token: str
    owner: str

    def __str__(self) -> str:
        return f"{str(self.ready).removesuffix('.json')}.{self.token}.{self.owner}.lease"

    @classmethod
    def parse(cls, name: str) -> ClaimedName | None:
        """None when `name` is no such name."""
        match = _CLAIMED.fullmatch(name)
        if match is None:
            return None
        ready = ReadyName(match["order"], int(match["deliveries"]), match["key"])
        return cls(ready, match["token"], match["owner"])


def stored(key: str) -> str:
    """Name in done/, quarantine/ and keys/ of the encoded `key`."""
    return f"{key}.json"


def parse_stored(name: str) -> str | None:
    """The encoded key of a name in done/, quarantine/ or keys/; None when it is no such name."""
    match = _STORED.fullmatch(name)
    return match["key"] if match else None
