"""Leases: who works on a file of messages, and who may say what becomes of them.

A lease is renewed by touching the claimed file and ends when that is taken out of claimed/, by its owner or by a
reaper. A worker that froze, lost its lease and wakes up finds its file gone and cannot commit: see `spool`.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rods.exchange import message, names, settlement
from rods.exchange.message import Message
from rods.exchange.names import ClaimedName, QueueError
from rods.exchange.settlement import Part
from rods.exchange.spool import LeaseLostError, Spool, lost


class Fate(enum.Enum):
    """What becomes of a message whose delivery ends."""

    DONE = "done"
    HANDED_BACK = "handed back"  # not worked on: back to its place, and not counted as a delivery
    FAILED = "failed"  # back to ready, or quarantine after the last delivery
    QUARANTINED = "quarantined"  # failed for good
    DROPPED = "dropped"  # nobody will work on it


@dataclass(frozen=True)
class Ending:
    """The fate of one message, with the reason when it is not a good one."""

    fate: Fate
    reason: str = ""


DONE = Ending(Fate.DONE)
HANDED_BACK = Ending(Fate.HANDED_BACK)


@dataclass(frozen=True)
class Claim:
    """One delivery of one file: a message or a batch. Apply the effects (idempotently, by key), then end it.

    Attributes:
        messages: as they were put, in delivery order.
    """

    messages: tuple[Message, ...]
    claimed: ClaimedName
    spool: Spool

    @property
    def key(self) -> str:
        """The key of the only message. Raises QueueError for a batch."""
        return self._single.key

    @property
    def message(self) -> dict[str, Any]:
        """The content of the only message. Raises QueueError for a batch."""
        return self._single.content

    @property
    def _single(self) -> Message:
        if len(self.messages) != 1:
            raise QueueError(f"a batch of {len(self.messages)} messages has no single key: use `messages`.")
        return self.messages[0]

    @property
    def token(self) -> str:
        """The fencing token: unique to this delivery."""
        return self.claimed.token

    @property
    def owner(self) -> str:
        """Who claimed it."""
        return names.decode(self.claimed.owner)

    @property
    def deliveries(self) -> int:
        """How often the messages were claimed, this time included."""
        return self.claimed.ready.deliveries

    @property
    def _path(self) -> Path:
        return self.spool.state("claimed") / str(self.claimed)

    def renew(self) -> None:
        """Start the lease anew. Call at least every third of the lease. Raises LeaseLostError."""
        try:
            os.utime(self._path, follow_symlinks=False)
        except FileNotFoundError as error:
            raise lost(self.claimed) from error

    def commit(self) -> None:
        """Done: the messages are never delivered again. Raises LeaseLostError when fenced off."""
        self._settle_alike(DONE)

    def release(self, reason: str) -> None:
        """Failed this time: back to ready, or quarantine after the last delivery. Raises LeaseLostError."""
        self._settle_alike(Ending(Fate.FAILED, reason))

    def quarantine(self, reason: str) -> None:
        """Failed for good: set aside with its reason. Raises LeaseLostError."""
        self._settle_alike(Ending(Fate.QUARANTINED, reason))

    def hand_back(self) -> None:
        """Not worked on (a clean stop): back to its place and not counted. Raises LeaseLostError."""
        self._settle_alike(HANDED_BACK)

    def _settle_alike(self, ending: Ending) -> None:
        self.settle({one.key: ending for one in self.messages})

    def settle(self, endings: Mapping[str, Ending]) -> None:
        """End the delivery, each message in its own way; a batch that is not treated as one is split up.

        From then on each of its messages is a file of its own. Either all of it happens or nothing.

        Raises:
            LeaseLostError: fenced off.
            QueueError: `endings` are not those of exactly these messages.
        """
        if endings.keys() != {one.key for one in self.messages}:
            raise QueueError(
                f"expected an ending for each of {[one.key for one in self.messages]}, found {list(endings)}."
            )
        ready = self.claimed.ready
        fates = {ending.fate for ending in endings.values()}
        if fates == {Fate.DONE}:
            self.spool.end(self.claimed, "done", names.stored(ready.label))
        elif fates == {Fate.HANDED_BACK}:
            self.spool.end(self.claimed, "ready", str(ready.uncounted()))
        else:
            self._settle_apart(endings)

    def _settle_apart(self, endings: Mapping[str, Ending]) -> None:
        # The reasons first: a crash must not lose them. They are taken back when somebody else has the lease.
        notes = [
            self.spool.note(self.claimed, one.encoded, endings[one.key].reason)
            for one in self.messages
            if endings[one.key].fate not in (Fate.DONE, Fate.HANDED_BACK)
        ]
        places = [self._place(one, endings[one.key].fate) for one in self.messages]
        try:
            self._move(places)
        except LeaseLostError:
            for note in notes:
                note.unlink(missing_ok=True)
            raise

    def _move(self, places: list[tuple[str, str]]) -> None:
        if not names.is_batch(self.claimed.ready.label):
            self.spool.end(self.claimed, *places[0])
            return
        parts = [
            Part(state, name, message.encode((one,), one.encoded))
            for one, (state, name) in zip(self.messages, places, strict=True)
        ]
        try:
            settlement.split(self.spool, self._path, parts)
        except FileNotFoundError as error:
            raise lost(self.claimed) from error

    def _place(self, one: Message, fate: Fate) -> tuple[str, str]:
        """State and file name of a message after this delivery."""
        ready = self.claimed.ready.single(one.encoded, one.priority)
        if fate is Fate.HANDED_BACK:
            return "ready", str(ready.uncounted())
        if fate is Fate.FAILED and ready.deliveries < self.spool.max_deliveries:
            return "ready", str(ready)
        state = {Fate.DONE: "done", Fate.DROPPED: "dropped"}.get(fate, "quarantine")
        return state, names.stored(one.encoded)


def set_aside(spool: Spool, claimed: ClaimedName, keys: tuple[str, ...], reason: str) -> None:
    """Quarantine a claimed file that cannot be read.

    Args:
        keys: the encoded keys that were put in it, as far as they are known: each is set aside under its own
            name, as what its entry in keys/ holds.

    Raises:
        LeaseLostError: fenced off.
    """
    label = claimed.ready.label
    notes = [spool.note(claimed, key, reason) for key in keys or (label,)]
    try:
        if names.is_batch(label) and keys:
            parts = [Part("quarantine", names.stored(key), spool.key_entry(key)) for key in keys]
            settlement.split(spool, spool.state("claimed") / str(claimed), parts)
        else:
            spool.end(claimed, "quarantine", names.stored(label))
    except (FileNotFoundError, LeaseLostError) as error:
        for note in notes:
            note.unlink(missing_ok=True)
        raise lost(claimed) from error
