"""File names of queue messages: they carry order and lease, so that one rename changes both at once.

    tmp      <priority>+<label>.<token>.put, <token>.settle, <token>.<state>.<name there>.part
    ready    <priority>+<age>+<deliveries>+<label>.json
    claimed  <priority>+<age>+<deliveries>+<label>.<token>.<owner>.lease
    done, quarantine, dropped   <label>.json
    keys     <key>.json

The label of a file with one message is its key, that of a batch is =<token>=<count>, which no key can be once
encoded. Priority and age have a fixed width and sort as text, so that a sorted listing is the order of delivery. Keys
come from outside: every character that is not plainly safe is percent-encoded, and so `..`, slashes or a
leading dot cannot leave the folder or hide a file.
"""

from __future__ import annotations

import math
import re
import secrets
import struct
from dataclasses import dataclass, replace
from urllib.parse import unquote

from rods.errors import RodsError

MAX_KEY_BYTES = 120
MAX_OWNER_BYTES = 40
MAX_DELIVERIES = 9999
_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
MAX_BATCH = 9999
_LABEL = r"(?P<label>[A-Za-z0-9_%-]+|=[0-9a-f]{16}=[0-9]{4})"
_TOKEN = r"(?P<token>[0-9a-f]{16})"
_ORDER = r"(?P<order>[0-9a-f]{16}\+[0-9]{20})\+(?P<deliveries>[0-9]{4})\+"
_PUT = re.compile(rf"(?P<rank>[0-9a-f]{{16}})\+{_LABEL}\.{_TOKEN}\.put")
_READY = re.compile(rf"{_ORDER}{_LABEL}\.json")
_CLAIMED = re.compile(rf"{_ORDER}{_LABEL}\.{_TOKEN}\.(?P<owner>[A-Za-z0-9_%-]+)\.lease")
_STORED = re.compile(rf"{_LABEL}\.json")
_PART = re.compile(
    rf"{_TOKEN}\.(?P<state>ready|done|quarantine|dropped)\.(?P<name>[A-Za-z0-9_%+-]+\.json)\.part"
)
_SETTLE = re.compile(rf"{_TOKEN}\.settle")


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


def _unrank(text: str) -> float:
    """The priority that `rank` was given."""
    rising = int(text, 16) ^ (2**64 - 1)
    bits = rising ^ 1 << 63 if rising >> 63 else rising ^ (2**64 - 1)
    (priority,) = struct.unpack(">d", struct.pack(">Q", bits))
    return float(priority)


def token() -> str:
    """16 hexadecimal digits that nobody else has."""
    return secrets.token_hex(8)


def batch_label(count: int) -> str:
    """The label of a new batch of `count` messages."""
    return f"={token()}={count:04d}"


def is_batch(label: str) -> bool:
    """Whether `label` is a batch's; otherwise it is an encoded key."""
    return label.startswith("=")


def count(label: str) -> int:
    """How many messages lie in the file with this label."""
    return int(label.rpartition("=")[2]) if is_batch(label) else 1


@dataclass(frozen=True)
class PutName:
    """A file in tmp/ that is being put: all that its name in ready/ needs but the age, which is its mtime."""

    rank: str
    label: str
    token: str

    def __str__(self) -> str:
        return f"{self.rank}+{self.label}.{self.token}.put"

    @classmethod
    def parse(cls, name: str) -> PutName | None:
        """None when `name` is no such name."""
        match = _PUT.fullmatch(name)
        return cls(match["rank"], match["label"], match["token"]) if match else None

    def ready(self, age_ns: int) -> ReadyName:
        """The name in ready/ of a file put at `age_ns`, nanoseconds by the file server's clock."""
        return ReadyName(f"{self.rank}+{age_ns:020d}", 0, self.label)


@dataclass(frozen=True, order=True)
class ReadyName:
    """A file in ready/.

    Attributes:
        order: priority (a batch's: of its best message) and age, as text that sorts.
        deliveries: how often it was claimed before.
        label: an encoded key, or a batch's.
    """

    order: str
    deliveries: int
    label: str

    def __str__(self) -> str:
        return f"{self.order}+{self.deliveries:04d}+{self.label}.json"

    @classmethod
    def parse(cls, name: str) -> ReadyName | None:
        """None when `name` is no such name."""
        match = _READY.fullmatch(name)
        return cls(match["order"], int(match["deliveries"]), match["label"]) if match else None

    @property
    def priority(self) -> float:
        """That of its best message."""
        return _unrank(self.order[:16])

    @property
    def age(self) -> str:
        """When it was put, as text that sorts."""
        return self.order[17:]

    def uncounted(self) -> ReadyName:
        """The same file as if its last delivery had not been."""
        return replace(self, deliveries=self.deliveries - 1)

    def single(self, key: str, priority: float) -> ReadyName:
        """The name of one message split off from this file: as old, in the place of its own priority."""
        return replace(self, order=f"{rank(priority)}{self.order[16:]}", label=key)


@dataclass(frozen=True)
class ClaimedName:
    """A file in claimed/: `ready` counts this delivery; `token` fences; `owner` is encoded, for people."""

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
        ready = ReadyName(match["order"], int(match["deliveries"]), match["label"])
        return cls(ready, match["token"], match["owner"])


@dataclass(frozen=True)
class PartName:
    """A message in tmp/, split off from a batch: to become `name` in `state` once the batch is settled.

    `token` is that of the settlement. Before `settle_name(token)` exists in tmp/, a part means nothing.
    """

    token: str
    state: str
    name: str

    def __str__(self) -> str:
        return f"{self.token}.{self.state}.{self.name}.part"

    @classmethod
    def parse(cls, name: str) -> PartName | None:
        """None when `name` is no such name."""
        match = _PART.fullmatch(name)
        return cls(match["token"], match["state"], match["name"]) if match else None


def settle_name(token: str) -> str:
    """Name in tmp/ of a batch that was taken apart under `token`."""
    return f"{token}.settle"


def parse_settle(name: str) -> str | None:
    """The token in the name of a batch that was taken apart; None when it is no such name."""
    match = _SETTLE.fullmatch(name)
    return match["token"] if match else None


def stored(label: str) -> str:
    """Name in done/, quarantine/, dropped/ and keys/ of the file with this label (in keys/: encoded key)."""
    return f"{label}.json"


def parse_stored(name: str) -> str | None:
    """The label in a name of done/, quarantine/, dropped/ or keys/; None when it is no such name."""
    match = _STORED.fullmatch(name)
    return match["label"] if match else None
