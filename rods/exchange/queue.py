"""A message queue in a shared folder, for producers and consumers on different nodes; no server, no lock.

Every change of state is one rename or one hard link, which the file server makes atomic. Delivery is at least
once; with effects that are idempotent by key, and endings behind the fence of `spool`, the effect is exactly
once. A file holds one message or a batch: a batch is one delivery, with one lease and one fence, and is taken
apart as soon as its messages do not all end well.

Each key that was ever put is in exactly one state: ready, claimed, done, quarantine or dropped. The exception is
what a crash in the middle of a put or of a split left in tmp/: it is `known`, and in no state until the next
`reap` (of anybody) completes it. Listings of several states are not one instant either.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rods.exchange import claiming, depth, message, names, puts, server_clock, settlement
from rods.exchange.atomic import CorruptFileError
from rods.exchange.lease import DONE, HANDED_BACK, Claim, Ending, Fate
from rods.exchange.message import Message
from rods.exchange.names import ClaimedName, InvalidKeyError, QueueError, ReadyName
from rods.exchange.spool import STATES, Failure, LeaseLostError, Spool

__all__ = [
    "DONE",
    "HANDED_BACK",
    "STATES",
    "Claim",
    "Ending",
    "Failure",
    "Fate",
    "InvalidKeyError",
    "LeaseLostError",
    "Message",
    "MessageMissingError",
    "Queue",
    "QueueError",
]

# What lies in tmp/ and never became a message is swept when nobody can still be at it.
_ABANDONED_S = 3600.0


class MessageMissingError(QueueError):
    """No message with this key in this state."""


class Queue:
    """One queue under `root`; any number of processes on any node may open it.

    Args:
        root: its folder; made if absent.
        lease_s: seconds after the last renewal when a claim may be taken away.
        max_deliveries: claims of one message before it is set aside.
    """

    def __init__(self, root: Path, *, lease_s: float = 60.0, max_deliveries: int = 3) -> None:
        if lease_s <= 0 or not 1 <= max_deliveries <= names.MAX_DELIVERIES:
            raise QueueError(
                f"queue {root}: expected lease_s > 0 and max_deliveries from 1 to {names.MAX_DELIVERIES}, "
                f"found {lease_s} and {max_deliveries}."
            )
        self.root = Path(root)
        self.lease_s = lease_s
        self._spool = Spool(self.root, max_deliveries)
        self._spool.make()
        self._last_age_ns = 0
        self._batches: dict[str, tuple[Message, ...]] = {}  # heads by label: a batch never changes

    def put(self, key: str, content: dict[str, Any], *, priority: float = 0.0) -> bool:
        """Publish one message, durably.

        Returns:
            False, with nothing changed, when the key was put before, whatever its state is.

        Raises:
            InvalidKeyError, QueueError: the key, the priority or the content cannot be stored.
            OSError: the disk is full, …; the call may be repeated.
        """
        return bool(self.put_many([Message(key, content, priority)]))

    def put_many(self, messages: Iterable[Message], per_file: int = 1) -> set[str]:
        """Publish messages, durably, those of highest priority together, `per_file` in one file.

        Returns:
            the keys that were not put before; the others are left as they are.

        Raises:
            InvalidKeyError, QueueError: a message cannot be stored; none was.
            OSError: the disk is full, …; some files may be published; the call may be repeated.
        """
        if not 1 <= per_file <= names.MAX_BATCH:
            raise QueueError(f"per_file: expected 1 to {names.MAX_BATCH}, found {per_file}.")
        first: dict[str, Message] = {}
        for one in messages:
            first.setdefault(one.key, one)
        # Sorting is stable: equal priorities keep the order of the call.
        ranked = sorted(first.values(), key=lambda one: names.rank(one.priority))
        known = {one.key for one in ranked if self.known(one.key)}
        fresh = [one for one in ranked if one.key not in known]
        chunks = (tuple(fresh[start : start + per_file]) for start in range(0, len(fresh), per_file))
        # Every message must be storable before anything is written, those of known keys too.
        drafts = [puts.Draft.of(chunk) for chunk in chunks]
        for one in ranked:
            if one.key in known:
                message.encode((one,), one.encoded)
        if known:
            self._finish()
        return self._publish(drafts)

    def _publish(self, drafts: list[puts.Draft]) -> set[str]:
        won: set[str] = set()
        for draft, written in zip(drafts, puts.write(self._spool, drafts), strict=True):
            # Of one producer's files the earlier is always the older, however coarse the server's clock.
            self._last_age_ns = max(self._last_age_ns + 1, written.st_mtime_ns)
            won.update(puts.publish(self._spool, draft, written, self._last_age_ns))
        if won:
            puts.sync(self._spool)
        return {names.decode(key) for key in won}

    def _finish(self) -> list[str]:
        """Complete what dead processes left half done in tmp/; returns the listing that it went by."""
        entries = sorted(os.listdir(self._spool.tmp))
        puts.finish_all(self._spool, entries)
        settlement.finish_all(self._spool, entries)
        return entries

    def claim(self, owner: str) -> Claim | None:
        """Take the file of highest priority, the oldest among equals; None when nothing is ready.

        See `claim_many`.
        """
        return next(iter(self.claim_many(owner, 1)), None)

    def claim_many(self, owner: str, messages: int) -> list[Claim]:
        """Take files in delivery order until they hold at least so many messages, with one listing.

        A file that cannot be read is set aside with its reason, and the next is taken.

        Args:
            owner: for people; name host and process.
            messages: wanted; a batch is taken whole, and so there may be more, or fewer if no more are ready.

        Raises:
            InvalidKeyError: the owner's name cannot be part of a file name.
        """
        encoded = names.encode(owner, names.MAX_OWNER_BYTES)
        claims: list[Claim] = []
        wanted = messages
        for name in self._spool.entries("ready") if wanted > 0 else ():
            ready = ReadyName.parse(name)
            claim = claiming.take(self._spool, ready, encoded) if ready else None
            if claim is not None:
                claims.append(claim)
                wanted -= len(claim.messages)
            if wanted <= 0:
                break
        return claims

    def shed(self, limit: int, owner: str) -> int:
        """Drop the waiting messages of lowest priority, old or new, the youngest among equals, above `limit`.

        They go to the state dropped, with a reason in `failures`. It never waits: what consumers take at
        this moment is left to them. A batch that loses only some of its messages is split.

        Returns:
            how many were dropped.
        """
        files = [ready for ready in map(ReadyName.parse, self._spool.entries("ready")) if ready]
        waiting = sum(names.count(ready.label) for ready in files)
        if waiting <= limit:
            return 0
        reason = (
            f"{waiting} messages were waiting, {limit} are allowed: those of lowest priority were dropped"
        )
        dropped = depth.surplus({ready: self._heads(ready) for ready in files}, limit)
        return sum(self._drop(ready, keys, owner, reason) for ready, keys in dropped.items())

    def _heads(self, ready: ReadyName) -> tuple[Message, ...]:
        """Keys and priorities of what lies in a ready file."""
        if not names.is_batch(ready.label):
            return (Message(names.decode(ready.label), {}, ready.priority),)
        return self._members(ready.label, self._spool.state("ready") / str(ready))

    def _drop(self, ready: ReadyName, keys: set[str], owner: str, reason: str) -> int:
        claim = claiming.take(self._spool, ready, names.encode(owner, names.MAX_OWNER_BYTES))
        if claim is None:
            return 0
        dropped = Ending(Fate.DROPPED, reason)
        claim.settle({one.key: dropped if one.key in keys else HANDED_BACK for one in claim.messages})
        return len(keys)

    def reap(self) -> int:
        """Take back claims whose lease ran out; also finish what dead processes left half done. Call it often.

        Age is judged by the file server's clock. A message at its last delivery goes to quarantine; the
        messages of a batch are split up, so that one that kills its worker does so alone the next time.

        Returns:
            the number of claims taken back.
        """
        entries = self._finish()
        folder = self._spool.state("claimed")
        claims = [claimed for claimed in map(ClaimedName.parse, self._spool.entries("claimed")) if claimed]
        # The probe before each look: a claim renewed after it looks younger than it is, never older.
        now = server_clock.now(folder) if claims else 0.0
        reaped = sum(self._reap(claimed, now) for claimed in claims)
        if entries:
            puts.sweep(self._spool, entries, max(_ABANDONED_S, 2 * self.lease_s))
        return reaped

    def _reap(self, claimed: ClaimedName, now: float) -> bool:
        try:
            if now - os.lstat(self._spool.state("claimed") / str(claimed)).st_mtime <= self.lease_s:
                return False
            claim = claiming.open_claim(self._spool, claimed)
            if claim is not None:
                claim.release(f"lease of {self.lease_s:g} s expired: the worker died or froze")
        except (FileNotFoundError, LeaseLostError):
            # Ended by its owner or by another reaper at this moment.
            return False
        return claim is not None

    def hand_back(self, owner: str) -> int:
        """Put back, uncounted, all that `owner` has claimed: for one that knows its predecessors to be gone.

        Returns:
            the number of claims handed back.
        """
        encoded = names.encode(owner, names.MAX_OWNER_BYTES)
        claims = filter(None, map(ClaimedName.parse, self._spool.entries("claimed")))
        return sum(self._hand_back(claimed) for claimed in claims if claimed.owner == encoded)

    def _hand_back(self, claimed: ClaimedName) -> bool:
        try:
            claim = claiming.open_claim(self._spool, claimed)
            if claim is not None:
                claim.hand_back()
        except (FileNotFoundError, LeaseLostError):
            return False
        return claim is not None

    def known(self, key: str) -> bool:
        """Whether `key` was ever put, in whatever state it is now. Raises InvalidKeyError."""
        return os.path.lexists(self._spool.key_entry(names.encode(key)))

    def counts(self) -> dict[str, int]:
        """Messages in each of STATES."""
        return {state: sum(map(names.count, self._spool.labels(state))) for state in STATES}

    def keys(self, state: str) -> list[str]:
        """Keys in `state`: ready and claimed in delivery order, the others sorted. Raises QueueError."""
        found = [one.key for messages in self._listed(state) for one in messages]
        return found if state in ("ready", "claimed") else sorted(found)

    def _listed(self, state: str) -> Iterator[tuple[Message, ...]]:
        """What the files in `state` hold, without the contents."""
        for label, name in self._spool.labels(state).items():
            if names.is_batch(label):
                yield self._members(label, self._spool.state(state) / name)
            else:
                yield (Message(names.decode(label), {}),)

    def _members(self, label: str, path: Path) -> tuple[Message, ...]:
        """Keys and priorities in a batch; none when it has moved on."""
        if label not in self._batches:
            try:
                messages = message.read(path, label)
            except FileNotFoundError:
                return ()
            except CorruptFileError:
                keys = claiming.keys_of_damaged(self._spool, path, label)
                return tuple(Message(names.decode(key), {}) for key in keys)
            self._batches[label] = tuple(Message(one.key, {}, one.priority) for one in messages)
        return self._batches[label]

    def read(self, state: str, key: str) -> dict[str, Any]:
        """The message with `key` in `state`.

        Raises:
            MessageMissingError: it is not (or no longer) in that state.
            CorruptFileError: the file does not hold a message.
        """
        labels = self._spool.labels(state)
        encoded = names.encode(key)
        # The entry of the key is the file that it was put in, a batch perhaps.
        label = encoded if encoded in labels else message.batch_of(self._spool.key_entry(encoded))
        with contextlib.suppress(FileNotFoundError):
            if label is not None and label in labels:
                messages = message.read(self._spool.state(state) / labels[label], label)
                for one in messages:
                    if one.key == key:
                        return one.content
        raise MessageMissingError(
            f"queue {self.root}: no message {key!r} in {state}. Look at keys({state!r})."
        )

    def failures(self, key: str) -> list[Failure]:
        """Why earlier deliveries of `key` failed, or why it was dropped, in order. Raises InvalidKeyError."""
        return self._spool.failures(names.encode(key))

    def iter_ready(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Key and message of what is ready, in delivery order, unclaimed; skips what vanishes meanwhile."""
        for label, name in self._spool.labels("ready").items():
            with contextlib.suppress(FileNotFoundError):
                for one in message.read(self._spool.state("ready") / name, label):
                    yield one.key, one.content
