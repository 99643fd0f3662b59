"""A message queue in a shared folder, for producers and consumers on different nodes; no server, no lock.

Every change of state is one rename or one hard link, which the file server makes atomic. Delivery is at least
once; with effects that are idempotent by key, and `commit` behind the fence of `lease`, the effect is exactly
once.

A put writes tmp/x, links it as keys/<key> (exclusive: one of several racing producers wins) and renames it
into ready/. A producer that dies between the last two leaves a file in tmp/ with a second link, its key;
anybody finishes that rename for it, and only one can.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rods.exchange import names, server_clock
from rods.exchange.atomic import CorruptFileError, fsync_dir, parse_json, write_new
from rods.exchange.lease import STATES, Claim, Failure, LeaseLostError, Spool
from rods.exchange.names import ClaimedName, InvalidKeyError, PutName, QueueError, ReadyName

__all__ = [
    "Claim",
    "Failure",
    "InvalidKeyError",
    "LeaseLostError",
    "MessageMissingError",
    "Queue",
    "QueueError",
]

# A file in tmp/ that never got its key is a put that never happened; swept when nobody can still be at it.
_ABANDONED_PUT_S = 3600.0


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

    def put(self, key: str, message: dict[str, Any], *, priority: float = 0.0) -> bool:
        """Publish `message` under `key`, durably.

        Returns:
            False, with nothing changed, when the key was put before: ready, claimed, done or set aside alike.

        Raises:
            InvalidKeyError, QueueError: the key, the priority or the message cannot be stored.
            OSError: the disk is full, …; the message is not published and the call may be repeated.
        """
        name = PutName(names.rank(priority), names.encode(key), secrets.token_hex(8))
        body = _envelope(key, priority, message)
        if self.known(key):
            self._finish_puts()
            return False
        temporary = self._spool.tmp / str(name)
        written = write_new(temporary, body)
        # Of one producer's messages the earlier is always the older, however coarse the server's clock.
        self._last_age_ns = max(self._last_age_ns + 1, written.st_mtime_ns)
        if not self._reserve(temporary, name.key):
            return False
        self._publish(temporary, name.ready(self._last_age_ns))
        return True

    def _reserve(self, temporary: Path, key: str) -> bool:
        """Take the encoded `key` for the message in `temporary`; False when another has it."""
        entry = self._spool.keys / names.stored(key)
        try:
            os.link(temporary, entry)
        except FileExistsError:
            # NFS may report this for a link that its own lost reply made.
            if not os.path.samestat(os.lstat(temporary), os.lstat(entry)):
                temporary.unlink()
                return False
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        fsync_dir(self._spool.keys)
        return True

    def _publish(self, temporary: Path, name: ReadyName) -> None:
        ready = self._spool.state("ready")
        try:
            temporary.rename(ready / str(name))
        except FileNotFoundError:
            # Another process saw our reservation and finished this put for us.
            return
        fsync_dir(ready)

    def _finish_puts(self) -> None:
        """Complete the puts of producers that died holding their key; sweep those that never took one."""
        for entry in sorted(os.listdir(self._spool.tmp)):
            name = PutName.parse(entry)
            try:
                if name is not None:
                    self._finish_put(self._spool.tmp / entry, name)
            except FileNotFoundError:
                # Its producer, or another process, was faster.
                continue

    def _finish_put(self, temporary: Path, name: PutName) -> None:
        status = os.lstat(temporary)
        if status.st_nlink == 1:
            if server_clock.now(self._spool.tmp) - status.st_mtime > _ABANDONED_PUT_S:
                temporary.unlink()
            return
        self._publish(temporary, name.ready(status.st_mtime_ns))

    def claim(self, owner: str) -> Claim | None:
        """Take the message of highest priority, the oldest among equals; None when nothing is ready.

        A message that cannot be read is set aside with its reason, and the next is taken.

        Raises:
            InvalidKeyError: the owner's name cannot be part of a file name.
        """
        encoded = names.encode(owner, names.MAX_OWNER_BYTES)
        for name in self._spool.entries("ready"):
            ready = ReadyName.parse(name)
            claim = self._take(ready, encoded) if ready else None
            if claim is not None:
                return claim
        return None

    def _take(self, ready: ReadyName, owner: str) -> Claim | None:
        """Claim one message; None when another was faster or it had to be set aside."""
        delivery = ReadyName(ready.order, ready.deliveries + 1, ready.key)
        claimed = ClaimedName(delivery, secrets.token_hex(8), owner)
        source = self._spool.state("ready") / str(ready)
        target = self._spool.state("claimed") / str(claimed)
        try:
            # The lease starts before the file shows up in claimed/, or a reaper could see the age of the put.
            os.utime(source, follow_symlinks=False)
            source.rename(target)
        except FileNotFoundError:
            return None
        try:
            body = _read_envelope(target)
            if names.encode(body["key"]) != ready.key:
                raise CorruptFileError(f"{target}: expected the key of its name, found {body['key']!r}.")
        except FileNotFoundError:
            # The lease ran out and was reaped already; the message is somebody else's now.
            return None
        except (CorruptFileError, InvalidKeyError) as error:
            with contextlib.suppress(LeaseLostError):
                self._spool.set_aside(claimed, f"unreadable: {error}")
            return None
        return Claim(body["key"], body["message"], claimed, self._spool)

    def reap(self) -> int:
        """Take back claims whose lease ran out; also finish the puts of dead producers. Call it often.

        Age is judged by the file server's clock. A message at its last delivery goes to quarantine.

        Returns:
            the number of claims taken back.
        """
        self._finish_puts()
        folder = self._spool.state("claimed")
        # The probe first: a claim renewed after it looks younger than it is, never older.
        now = server_clock.now(folder)
        return sum(self._reap(name, folder, now) for name in self._spool.entries("claimed"))

    def _reap(self, name: str, folder: Path, now: float) -> bool:
        claimed = ClaimedName.parse(name)
        if claimed is None:
            return False
        try:
            if now - os.lstat(folder / name).st_mtime <= self.lease_s:
                return False
            self._spool.fail(claimed, f"lease of {self.lease_s:g} s expired: the worker died or froze")
        except (FileNotFoundError, LeaseLostError):
            # Ended by its owner or by another reaper at this moment.
            return False
        return True

    def known(self, key: str) -> bool:
        """Whether `key` was ever put, in whatever state it is now. Raises InvalidKeyError."""
        return os.path.lexists(self._spool.keys / names.stored(names.encode(key)))

    def counts(self) -> dict[str, int]:
        """Messages in each state: ready, claimed, done, quarantine. Listings are not one instant."""
        return {state: len(self._names(state)) for state in STATES}

    def keys(self, state: str) -> list[str]:
        """Keys in `state`: ready and claimed in delivery order, the others sorted. Raises QueueError."""
        return [names.decode(key) for key in self._names(state)]

    def read(self, state: str, key: str) -> dict[str, Any]:
        """The message with `key` in `state`.

        Raises:
            MessageMissingError: it is not (or no longer) in that state.
            CorruptFileError: the file does not hold a message.
        """
        name = self._names(state).get(names.encode(key))
        try:
            if name is not None:
                return _message(self._spool.state(state) / name)
        except FileNotFoundError:
            # Moved on since the listing: reported below, as if it had never been seen.
            name = None
        raise MessageMissingError(
            f"queue {self.root}: no message {key!r} in {state}. Look at keys({state!r})."
        )

    def failures(self, key: str) -> list[Failure]:
        """Why earlier deliveries of `key` failed, in order. Raises InvalidKeyError."""
        return self._spool.failures(names.encode(key))

    def iter_ready(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Key and message of what is ready, in delivery order, unclaimed; skips what vanishes meanwhile."""
        for key, name in self._names("ready").items():
            try:
                yield names.decode(key), _message(self._spool.state("ready") / name)
            except FileNotFoundError:
                continue

    def _names(self, state: str) -> dict[str, str]:
        """File names in `state` by encoded key."""
        if state not in STATES:
            raise QueueError(f"no state {state!r}: expected one of {', '.join(STATES)}.")
        pairs = ((_key_of(name, state), name) for name in self._spool.entries(state))
        return {key: name for key, name in pairs if key is not None}


def _key_of(name: str, state: str) -> str | None:
    """The encoded key in a file name of `state`; None for a file that is no message."""
    if state == "ready":
        ready = ReadyName.parse(name)
        return ready.key if ready else None
    if state == "claimed":
        claimed = ClaimedName.parse(name)
        return claimed.ready.key if claimed else None
    return names.parse_stored(name)


def _envelope(key: str, priority: float, message: dict[str, Any]) -> bytes:
    try:
        body = {"key": key, "priority": priority, "message": message}
        return json.dumps(body, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise QueueError(
            f"message {key!r} must be plain JSON: {error}. Found: {str(message)[:200]}"
        ) from error


def _message(path: Path) -> dict[str, Any]:
    message: dict[str, Any] = _read_envelope(path)["message"]
    return message


def _read_envelope(path: Path) -> dict[str, Any]:
    """The whole content of a message file.

    Raises:
        CorruptFileError: it is not what `put` writes, or it is no regular file (a link put there by hand).
        FileNotFoundError: there is none.
    """
    body = parse_json(_read_regular(path), path)
    if not isinstance(body, dict) or body.keys() != {"key", "priority", "message"}:
        raise CorruptFileError(
            f"{path}: expected a message with key, priority, message; found {str(body)[:200]}."
        )
    return body


def _read_regular(path: Path) -> bytes:
    """The bytes of a regular file. Follows no link, waits on no pipe: what lies in a queue is not trusted."""
    refusal = CorruptFileError(f"{path}: expected a message, found a link, a folder or a device. Remove it.")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise refusal from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise refusal
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read()
