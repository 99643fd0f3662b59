"""Claiming: from a file in ready/ to one in claimed/, and what is done about one that cannot be read."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from rods.exchange import atomic, lease, message, names
from rods.exchange.atomic import CorruptFileError
from rods.exchange.lease import Claim
from rods.exchange.names import ClaimedName, ReadyName
from rods.exchange.spool import LeaseLostError, Spool


def take(spool: Spool, ready: ReadyName, owner: str) -> Claim | None:
    """Claim one file for the encoded `owner`; None when another was faster or it had to be set aside."""
    delivery = ReadyName(ready.order, ready.deliveries + 1, ready.label)
    claimed = ClaimedName(delivery, names.token(), owner)
    source = spool.state("ready") / str(ready)
    try:
        # The lease starts before the file shows up in claimed/, or a reaper could see the age of the put.
        os.utime(source, follow_symlinks=False)
        atomic.rename(source, spool.state("claimed") / str(claimed))
    except FileNotFoundError:
        return None
    return open_claim(spool, claimed)


def open_claim(spool: Spool, claimed: ClaimedName) -> Claim | None:
    """The claim of a claimed file; None when it is gone, or unreadable and therefore set aside."""
    path = spool.state("claimed") / str(claimed)
    try:
        return Claim(message.read(path, claimed.ready.label), claimed, spool)
    except FileNotFoundError:
        # The lease ran out and was reaped already; the messages are somebody else's now.
        return None
    except CorruptFileError as error:
        with contextlib.suppress(LeaseLostError, FileNotFoundError):
            keys = keys_of_damaged(spool, path, claimed.ready.label)
            lease.set_aside(spool, claimed, keys, f"unreadable: {error}")
        return None


def keys_of_damaged(spool: Spool, path: Path, label: str) -> tuple[str, ...]:
    """The encoded keys that were put in an unreadable file.

    A batch's are found by their entries in keys/: links to that very file, or intact copies of it. They are none
    if the entries are damaged too. Raises FileNotFoundError.
    """
    if not names.is_batch(label):
        return (label,)
    inode = os.lstat(path).st_ino
    with os.scandir(spool.keys) as entries:
        pairs = [(names.parse_stored(entry.name), entry) for entry in entries]
    return tuple(
        sorted(
            key
            for key, entry in pairs
            if key and (entry.inode() == inode or message.batch_of(Path(entry.path)) == label)
        )
    )
