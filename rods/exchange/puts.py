"""Putting: from a file in tmp/ to one in ready/, each key accepted once.

A put writes tmp/x, links it as keys/<key> for each of its messages (exclusive: one of several racing producers
wins a key) and renames it into ready/. A producer that dies after its first link leaves a file in tmp/ with more
than one link; anybody goes on with the very same steps for it, and only one rename succeeds. Of a batch that lost
some of its keys to another producer only the others are published, by taking it apart (`settlement`).
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from rods.exchange import atomic, message, names, server_clock, settlement
from rods.exchange.atomic import fsync_dir, write_new
from rods.exchange.message import Message
from rods.exchange.names import PartName, PutName
from rods.exchange.pressure import attempt
from rods.exchange.settlement import Part
from rods.exchange.spool import Spool


@dataclass(frozen=True)
class Draft:
    """A file in tmp/ whose keys are not all taken yet.

    Attributes:
        messages: in delivery order, the best first.
        body: what it holds.
    """

    name: PutName
    messages: tuple[Message, ...]
    body: bytes

    @classmethod
    def of(cls, messages: tuple[Message, ...]) -> Draft:
        """Not written yet. Raises InvalidKeyError, QueueError: a message cannot be stored."""
        keys = [one.encoded for one in messages]
        ranks = [names.rank(one.priority) for one in messages]
        label = keys[0] if len(keys) == 1 else names.batch_label(len(keys))
        return cls(PutName(min(ranks), label, names.token()), messages, message.encode(messages, label))

    @property
    def keys(self) -> list[str]:
        """Encoded."""
        return [one.encoded for one in self.messages]


def write(spool: Spool, drafts: list[Draft]) -> list[os.stat_result]:
    """Write all drafts to tmp/, synced, or none. Raises OSError."""
    written: list[os.stat_result] = []
    try:
        for draft in drafts:
            written.append(write_new(spool.tmp / str(draft.name), draft.body))
    except OSError:
        for draft in drafts[: len(written)]:
            (spool.tmp / str(draft.name)).unlink(missing_ok=True)
        raise
    return written


def publish(spool: Spool, draft: Draft, written: os.stat_result, age_ns: int) -> list[str]:
    """Take the keys of a written draft and move it to ready/; `sync` makes that durable.

    Returns:
        the encoded keys that it won.

    Raises:
        OSError: it may be published or not; the same put may be repeated.
    """
    path = spool.tmp / str(draft.name)
    try:
        won = [key for key in draft.keys if _take(spool, path, written, key)]
        if len(won) == len(draft.keys):
            atomic.rename(path, spool.state("ready") / str(draft.name.ready(age_ns)))
        elif won:
            settlement.split(spool, path, _parts(draft, won, age_ns))
        else:
            path.unlink()
    except FileNotFoundError:
        # Another process saw our first key and finished this put for us.
        won = [key for key in draft.keys if _is_entry(spool, key, written)]
        if not won:
            raise
    return won


def _take(spool: Spool, path: Path, status: os.stat_result, key: str) -> bool:
    """Take the encoded `key` for the file at `path`, with this status; False when somebody has it."""
    entry = spool.key_entry(key)
    try:
        attempt(lambda: os.link(path, entry), path)
    except FileExistsError:
        # NFS may report this for a link that its own lost reply made; a put that is finished for another has it.
        return _is_entry(spool, key, status)
    return True


def _is_entry(spool: Spool, key: str, status: os.stat_result) -> bool:
    """Whether the encoded `key` is taken by the file with this status."""
    try:
        return os.path.samestat(os.lstat(spool.key_entry(key)), status)
    except FileNotFoundError:
        return False


def _parts(draft: Draft, won: list[str], age_ns: int) -> list[Part]:
    ready = draft.name.ready(age_ns)
    return [
        Part("ready", str(ready.single(one.encoded, one.priority)), message.encode((one,), one.encoded))
        for one in draft.messages
        if one.encoded in won
    ]


def sync(spool: Spool) -> None:
    """Make the keys taken and the files published durable."""
    fsync_dir(spool.keys)
    fsync_dir(spool.state("ready"))


def finish_all(spool: Spool, entries: list[str]) -> None:
    """Complete the puts of producers that died holding a key; `entries` is a listing of tmp/."""
    finished = [_finish(spool, name) for name in map(PutName.parse, entries) if name is not None]
    if any(finished):
        sync(spool)


def _finish(spool: Spool, name: PutName) -> bool:
    path = spool.tmp / str(name)
    try:
        status = os.lstat(path)
        if status.st_nlink == 1:
            return False
        draft = Draft(name, message.read(path, name.label), b"")
        publish(spool, draft, status, status.st_mtime_ns)
    except FileNotFoundError:
        # Its producer, or another process, was faster.
        return False
    return True


def sweep(spool: Spool, entries: list[str], abandoned_s: float) -> None:
    """Remove what never became a message and is older than `abandoned_s`.

    Sound only after expired claims were taken back: a worker that is about to take a batch apart has parts in
    tmp/ that are not yet settled, and must have lost its lease before they go.
    """
    now = server_clock.now(spool.tmp)
    settling = {part.token for part in map(PartName.parse, entries) if part is not None}
    for entry in entries:
        path = spool.tmp / entry
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            if now - os.lstat(path).st_mtime > abandoned_s and _is_litter(spool, entry, settling):
                path.unlink()


def _is_litter(spool: Spool, entry: str, settling: set[str]) -> bool:
    """Whether this entry of tmp/ means nothing to anybody; `settling`: tokens of the parts that lie there."""
    if PutName.parse(entry) is not None:
        return os.lstat(spool.tmp / entry).st_nlink == 1
    if (part := PartName.parse(entry)) is not None:
        return not settlement.is_settled(spool, part.token)
    token = names.parse_settle(entry)
    return token is not None and token not in settling
