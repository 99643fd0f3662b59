"""The folders of one queue and the moves between them.

Every change of state is one rename, and the random token in a claimed file's name is the fence: whoever takes the
lease away renames that very name, and so only one process can end a delivery. No clock and no lock decides.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from rods.exchange import atomic, names
from rods.exchange.atomic import fsync_dir, make_dirs, read_json, write_json
from rods.exchange.names import ClaimedName, QueueError

STATES = ("ready", "claimed", "done", "quarantine", "dropped")


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
    """Where the files of one queue lie."""

    root: Path
    max_deliveries: int

    @property
    def tmp(self) -> Path:
        """What is being put or taken apart."""
        return self.root / "tmp"

    @property
    def keys(self) -> Path:
        """Every key ever put: a hard link to the file that it was put in, made before that is ready."""
        return self.root / "keys"

    @property
    def failures_dir(self) -> Path:
        """Reasons of failed deliveries, one small file each."""
        return self.root / "failures"

    def state(self, name: str) -> Path:
        """The folder of one of STATES."""
        return self.root / name

    def key_entry(self, key: str) -> Path:
        """Where the encoded `key` is reserved."""
        return self.keys / names.stored(key)

    def make(self) -> None:
        """Create the folders that are missing."""
        for path in (self.tmp, self.keys, self.failures_dir, *map(self.state, STATES)):
            make_dirs(path)

    def entries(self, state: str) -> list[str]:
        """What lies in the folder of `state`, sorted; also what is no message (probes, NFS leftovers)."""
        return sorted(os.listdir(self.state(state)))

    def labels(self, state: str) -> dict[str, str]:
        """Labels of the files in `state` and their names: ready and claimed in delivery order, others sorted.

        Raises:
            QueueError: there is no such state.
        """
        if state not in STATES:
            raise QueueError(f"no state {state!r}: expected one of {', '.join(STATES)}.")
        pairs = ((_label_of(name, state), name) for name in self.entries(state))
        return {label: name for label, name in pairs if label is not None}

    def end(self, claimed: ClaimedName, state: str, name: str) -> None:
        """Move a claimed file to `name` in `state`, durably: the fence.

        Raises:
            LeaseLostError: it is no longer there under this token.
        """
        try:
            atomic.rename(self.state("claimed") / str(claimed), self.state(state) / name)
        except FileNotFoundError as error:
            raise lost(claimed) from error
        # The folder it left needs no fsync: a power cut that brought it back there would make a redelivery.
        fsync_dir(self.state(state))

    def note(self, claimed: ClaimedName, label: str, reason: str) -> Path:
        """Keep the reason why this delivery of `label` failed; each writer has its own file for it."""
        path = self.failures_dir / f"{label}+{claimed.ready.deliveries:04d}+{secrets.token_hex(4)}.json"
        body = {"delivery": claimed.ready.deliveries, "owner": names.decode(claimed.owner), "reason": reason}
        write_json(path, body)
        return path

    def failures(self, key: str) -> list[Failure]:
        """The failed deliveries of the encoded `key`, in order."""
        found = sorted(name for name in os.listdir(self.failures_dir) if name.startswith(f"{key}+"))
        return [Failure(**read_json(self.failures_dir / name)) for name in found]


def lost(claimed: ClaimedName) -> LeaseLostError:
    """The error for a lease that is no longer held."""
    label = claimed.ready.label
    what = f"a batch of {names.count(label)}" if names.is_batch(label) else repr(names.decode(label))
    return LeaseLostError(
        f"{names.decode(claimed.owner)} no longer holds the lease on {what} "
        f"(delivery {claimed.ready.deliveries}): it expired, or was ended before. Drop this work; "
        "renew more often if the worker was alive."
    )


def _label_of(name: str, state: str) -> str | None:
    """The label in a file name of `state`; None for a file that is no message."""
    if state == "ready":
        ready = names.ReadyName.parse(name)
        return ready.label if ready else None
    if state == "claimed":
        claimed = ClaimedName.parse(name)
        return claimed.ready.label if claimed else None
    return names.parse_stored(name)
