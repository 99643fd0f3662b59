"""Other people's queues that `benchmarks.exchange` compares, each behind the calls of `System`.

SQLite queues run with `synchronous=FULL`, so that a put is on the disk when it returns, as ours is. mailbox.Maildir
of the standard library is left out: it has no claim, and two consumers would take every message twice.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import diskcache
import litequeue
import persistqueue
from dirq.QueueSimple import QueueSimple
from huey.storage import FileStorage, SqliteStorage
from persistqueue.sqlackqueue import SQLiteAckQueue

from benchmarks.exchange_systems import EXPIRED_S, Delivery, Ours, OursSingle, System, encode, key_of

LOCK_TIMEOUT_S = 60.0


class Dirq(System):
    """Claims by hard links; as it comes, it syncs nothing."""

    name = "dirq 1.8 (no fsync)"
    durable = False
    shared = True

    def __init__(self, folder: Path) -> None:
        self._queue = QueueSimple(str(folder))

    def put(self, keys: Sequence[str]) -> None:
        self._queue.add(encode(keys[0]))

    def take(self) -> Delivery | None:
        element = self._queue.next() or self._queue.first()
        while element:
            if self._queue.lock(element):
                return element, [key_of(self._queue.get(element))]
            element = self._queue.next()
        return None

    def ack(self, ticket: Any) -> None:
        self._queue.remove(ticket)

    def recover(self) -> None:
        time.sleep(2 * EXPIRED_S)
        # It prints what it removes.
        with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
            self._queue.purge(maxtemp=EXPIRED_S, maxlock=EXPIRED_S)


class DirqSynced(Dirq):
    """With the fsyncs that a careful user adds around it: of the file, and of the folder after put and ack."""

    name = "dirq 1.8 + fsync"
    durable = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._folder = folder

    def put(self, keys: Sequence[str]) -> None:
        with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as file:
            file.write(encode(keys[0]))
            file.flush()
            os.fsync(file.fileno())
        self._sync(self._queue.add_path(file.name))

    def ack(self, ticket: Any) -> None:
        super().ack(ticket)
        self._sync(ticket)

    def _sync(self, element: str) -> None:
        descriptor = os.open((self._folder / element).parent, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


class PersistFile(System):
    """Keeps its positions in memory: made for one process. Syncs once in a hundred messages."""

    name = "persist-queue 1.1.0 file"
    durable = False

    def __init__(self, folder: Path) -> None:
        self._queue = persistqueue.Queue(str(folder / "queue"), tempdir=str(folder))

    def put(self, keys: Sequence[str]) -> None:
        self._queue.put(encode(keys[0]))

    def take(self) -> Delivery | None:
        try:
            data = self._queue.get(block=False)
        except persistqueue.Empty:
            return None
        return data and (None, [key_of(data)])

    def ack(self, ticket: Any) -> None:
        self._queue.task_done()


class PersistSqlite(System):
    """With acknowledgements; its resumption of unacknowledged messages is left to `recover`."""

    name = "persist-queue 1.1.0 SQLite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._queue = self._open(auto_resume=False)

    def _open(self, auto_resume: bool) -> SQLiteAckQueue:
        return SQLiteAckQueue(str(self._folder), auto_resume=auto_resume, timeout=LOCK_TIMEOUT_S)

    def put(self, keys: Sequence[str]) -> None:
        self._queue.put(encode(keys[0]))

    def take(self) -> Delivery | None:
        try:
            row = self._queue.get(block=False, raw=True)
        except persistqueue.Empty:
            return None
        return row["pqid"], [key_of(row["data"])]

    def ack(self, ticket: Any) -> None:
        self._queue.ack(id=ticket)

    def recover(self) -> None:
        self._queue = self._open(auto_resume=True)


class Lite(System):
    """litequeue."""

    name = "litequeue 0.9"

    def __init__(self, folder: Path) -> None:
        self._queue = litequeue.LiteQueue(folder / "queue.db", timeout=LOCK_TIMEOUT_S)
        self._queue.conn.execute("PRAGMA synchronous = FULL")

    def put(self, keys: Sequence[str]) -> None:
        self._queue.put(encode(keys[0]).decode())

    def take(self) -> Delivery | None:
        message = self._queue.pop()
        return message and (message.message_id, [key_of(message.data)])

    def ack(self, ticket: Any) -> None:
        self._queue.done(ticket)

    def recover(self) -> None:
        for message in list(self._queue.list_locked(0)):
            self._queue.retry(message.message_id)


class Disk(System):
    """diskcache's Deque; taking a message removes it."""

    name = "diskcache 5.6.3 Deque"

    def __init__(self, folder: Path) -> None:
        cache = diskcache.Cache(
            str(folder), timeout=LOCK_TIMEOUT_S, eviction_policy="none", sqlite_synchronous=2
        )
        self._deque = diskcache.Deque.fromcache(cache)

    def put(self, keys: Sequence[str]) -> None:
        self._deque.append(encode(keys[0]))

    def take(self) -> Delivery | None:
        try:
            return None, [key_of(self._deque.popleft())]
        except IndexError:
            return None


class _Huey(System):
    """Storage of huey; taking a message removes it."""

    _storage: FileStorage | SqliteStorage

    def put(self, keys: Sequence[str]) -> None:
        self._storage.enqueue(encode(keys[0]))

    def take(self) -> Delivery | None:
        data = self._storage.dequeue()
        return None if data is None else (None, [key_of(data)])


class HueyFile(_Huey):
    """One flock around everything; syncs nothing."""

    name = "huey 3.5.4 file"
    durable = False

    def __init__(self, folder: Path) -> None:
        self._storage = FileStorage("benchmark", str(folder))


class HueySqlite(_Huey):
    """huey's SQLite."""

    name = "huey 3.5.4 SQLite"

    def __init__(self, folder: Path) -> None:
        filename = str(folder / "huey.db")
        self._storage = SqliteStorage("benchmark", filename, fsync=True, timeout=LOCK_TIMEOUT_S)


SYSTEMS: tuple[type[System], ...] = (
    Ours,
    OursSingle,
    DirqSynced,
    Dirq,
    PersistFile,
    PersistSqlite,
    Lite,
    Disk,
    HueyFile,
    HueySqlite,
)
