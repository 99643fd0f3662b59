"""Leases: who works on a message, and who may say that it is done.

A claimed message is a file whose name holds a random token. Its lease is renewed by touching it and ends when
it is taken out of claimed/, by its owner or by a reaper. Every ending is one rename of that very name, which
only one process can win: a worker that froze, lost its lease and wakes up finds its file gone and cannot
commit. The token in the name is the fence, so no clock and no lock decides.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rods.exchange import names
from rods.exchange.atomic import fsync_dir, make_dirs, read_json, write_json
from rods.exchange.names import ClaimedName, QueueError

STATES = ("ready", "claimed", "done", "quarantine")


class LeaseLostError(QueueError):
    """The lease was taken away (it expired) or was ended before: drop the work, another may have it."""


@dataclass(frozen=True)
class Failure:
    """Why one delivery of a message did not end in a commit."""

    delivery: int
    owner: str
    reason: str


@dataclass(frozen=True)
class Spool:
    """The folders of one queue and the moves between them."""

    root: Path
    max_deliveries: int

    @property
    def tmp(self) -> Path:
        """Messages being written."""
        return self.root / "tmp"

    @property
    def keys(self) -> Path:
        """Every key ever put: a hard link to its message, which exists from before it is ready."""
        return self.root / "keys"

    @property
    def failures_dir(self) -> Path:
        """Reasons of failed deliveries, one small file each."""
        return self.root / "failures"

    def state(self, name: str) -> Path:
        """The folder of one of STATES."""
        return self.root / name

    def make(self) -> None:
        """Create the folders that are missing."""
        for path in (self.tmp, self.keys, self.failures_dir, *map(self.state, STATES)):
            make_dirs(path)

    def entries(self, state: str) -> list[str]:
        """What lies in the folder of `state`, sorted; also what is no message (probes, NFS leftovers)."""
        return sorted(os.listdir(self.state(state)))

    def end(self, claimed: ClaimedName, state: str, name: str) -> None:
        """Move a claimed message to `name` in `state`, durably: the fence.

        Raises:
            LeaseLostError: it is no longer there under this token.
        """
        try:
            (self.state("claimed") / str(claimed)).rename(self.state(state) / name)
        except FileNotFoundError as error:
            raise lost(claimed) from error
        fsync_dir(self.state(state))
        fsync_dir(self.state("claimed"))

    def fail(self, claimed: ClaimedName, reason: str) -> None:
        """End a delivery without success: back to ready, or to quarantine if it was the last one allowed."""
        if claimed.ready.deliveries >= self.max_deliveries:
            self.set_aside(claimed, reason)
            return
        self._end_with_reason(claimed, reason, "ready", str(claimed.ready))

    def set_aside(self, claimed: ClaimedName, reason: str) -> None:
        """Quarantine a claimed message."""
        self._end_with_reason(claimed, reason, "quarantine", names.stored(claimed.ready.key))

    def _end_with_reason(self, claimed: ClaimedName, reason: str, state: str, name: str) -> None:
        # The reason first: a crash between the two must not lose it. Each writer has its own file for it,
        # and takes it back when somebody else ended the lease.
        note = (
            self.failures_dir
            / f"{claimed.ready.key}+{claimed.ready.deliveries:04d}+{secrets.token_hex(4)}.json"
        )
        body = {"delivery": claimed.ready.deliveries, "owner": names.decode(claimed.owner), "reason": reason}
        write_json(note, body)
        try:
            self.end(claimed, state, name)
        except LeaseLostError:
            note.unlink(missing_ok=True)
            raise

    def failures(self, key: str) -> list[Failure]:
        """The failed deliveries of the encoded `key`, in order."""
        found = sorted(name for name in os.listdir(self.failures_dir) if name.startswith(f"{key}+"))
        return [Failure(**read_json(self.failures_dir / name)) for name in found]


def lost(claimed: ClaimedName) -> LeaseLostError:
    """The error for a lease that is no longer held."""
    return LeaseLostError(
        f"{names.decode(claimed.owner)} no longer holds the lease on {names.decode(claimed.ready.key)!r} "
        f"(delivery {claimed.ready.deliveries}): it expired, or was ended before. Drop this work; "
        "renew more often if the worker was alive."
    )


@dataclass(frozen=True)
class Claim:
    """One delivery of one message. Apply its effects (idempotently, by key), then `commit`.

    Attributes:
        key: as it was put.
        message: as it was put.
        deliveries: 1 for the first delivery.
    """

    key: str
    message: dict[str, Any]
    claimed: ClaimedName
    spool: Spool

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
        """How often the message was claimed, this time included."""
        return self.claimed.ready.deliveries

    def renew(self) -> None:
        """Start the lease anew. Call at least every third of the lease. Raises LeaseLostError."""
        try:
            os.utime(self.spool.state("claimed") / str(self.claimed), follow_symlinks=False)
        except FileNotFoundError as error:
            raise lost(self.claimed) from error

    def commit(self) -> None:
        """Done: the message is never delivered again. Raises LeaseLostError when fenced off."""
        self.spool.end(self.claimed, "done", names.stored(self.claimed.ready.key))

    def release(self, reason: str) -> None:
        """Failed this time: back to ready, or quarantine after the last delivery. Raises LeaseLostError."""
        self.spool.fail(self.claimed, reason)

    def quarantine(self, reason: str) -> None:
        """Failed for good: set aside with its reason. Raises LeaseLostError."""
        self.spool.set_aside(self.claimed, reason)

    def hand_back(self) -> None:
        """Not worked on (a clean stop): back to its place and not counted. Raises LeaseLostError."""
        self.spool.end(self.claimed, "ready", str(self.claimed.ready.uncounted()))
