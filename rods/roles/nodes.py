"""Several nodes for the trainer: how their processes meet, and how each learns that another is lost.

The process of the first node, rank 0, opens a store and writes into the attempt's folder where it is: under its own
host's name, at a port that was free. Those of further nodes read that, start their ranks, and give a sign of life in
the store every few seconds. A rank that failed is told there by its node. A node that gives no sign is lost: at once
where a collective has failed already, else after `launch.heartbeat_timeout_s`. A node that can no longer reach the
store ends its ranks.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import torch.distributed as dist
from setproctitle import setproctitle

from launchers import snapshot
from rods.config import Config
from rods.errors import RodsError
from rods.exchange import permissions
from rods.exchange.atomic import read_json, write_json
from rods.exchange.rundir import RunDir
from rods.roles import outcome, ranks
from rods.roles.outcome import Outcome, Status
from rods.roles.ranks import GRACE_S, LOOPBACK, POLL_S, Local, Loss, World

_FILE = "rendezvous.json"
_BEAT_EVERY_S = 2.0
_SILENT_S = 3 * _BEAT_EVERY_S  # of a node, when something is known to be lost
_STORE_S = 60.0  # for an answer of the store


class RendezvousError(RodsError):
    """A node did not find rank 0."""


@contextmanager
def together(run: RunDir, attempt: int, config: Config) -> Iterator[None]:
    """While it lasts the ranks beside this process, rank 0, are there; nothing happens where it is the only one.

    Raises:
        GpuMissingError: see there.
        RankLostError: a rank or a node was lost, and this process could not go on.
    """
    nodes, per_node = config.cluster.train.nodes, ranks.count(config)
    address = LOOPBACK if nodes == 1 else socket.gethostname()
    world = World(nodes, per_node, address, 0)
    if world.size == 1:
        yield
        return
    store, world = ranks.store(world)
    os.environ.update(ranks.environment(0, world, ranks.gpus(per_node)))
    if nodes > 1:
        write_json(run.attempt_dir(attempt) / _FILE, {"address": world.address, "port": world.port})
    remote = Remote(store, world, config.launch.heartbeat_timeout_s)
    with ranks.started(run, attempt, world, range(1, per_node)) as local, ranks.watched([local, remote]):
        yield
    remote.close()


class Remote:
    """The trainer's further nodes, as rank 0 sees them.

    Args:
        store: of rank 0.
        silence_s: without a sign of life for so long a node is lost.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        store: dist.Store,
        world: World,
        silence_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._world, self._silence_s, self._clock = store, world, silence_s, clock
        self._seen = dict.fromkeys(range(1, world.nodes), (0, clock()))

    def failed(self, hurry: bool) -> Loss | None:
        """See `ranks.Peers`."""
        for node in self._seen:
            if self._store.check([_lost(node)]):
                return Loss(self._store.get(_lost(node)).decode())
            beats, since = self._store.add(_beats(node), 0), self._seen[node]
            if beats != since[0]:
                self._seen[node] = (beats, self._clock())
            elif self._clock() - since[1] > (_SILENT_S if hurry else self._silence_s):
                return Loss(self._silent(node, self._clock() - since[1]), of_node=True)
        return None

    def close(self, patience_s: float = GRACE_S) -> None:
        """Wait until all have ended in order, so long at most: with this process their store goes away."""
        deadline = self._clock() + patience_s
        ends = [_ended(node) for node in self._seen]
        while ends and not self._store.check(ends) and self._clock() < deadline:
            time.sleep(POLL_S)

    def _silent(self, node: int, seconds: float) -> str:
        first = node * self._world.per_node
        last = first + self._world.per_node - 1
        known = self._store.check([_host(node)])
        name = self._store.get(_host(node)).decode() if known else "which never came"
        who = f"rank {first}" if first == last else f"ranks {first} to {last}"
        return (
            f"the trainer's node {node} ({name}, with {who} of {self._world.size}) has given no sign of life for "
            f"{seconds:.0f} s"
        )


def keep(run: RunDir, attempt: int, node: int) -> int:
    """The whole life of a further node's process: its ranks, from their start to their end; the exit status.

    Signals are rank 0's to act on. What goes wrong is printed and told to rank 0, or recorded where rank 0 cannot hear.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    setproctitle(f"rods-train-node:{run.path.name}")
    permissions.adopt_from(run.path)
    try:
        snapshot.verify(run)
        config = snapshot.load_config(run)
        world = find(run, attempt, config)
        store = client(world.address, world.port)
        store.set(_host(node), os.environ.get("SLURMD_NODENAME", socket.gethostname()))
        first = node * world.per_node
        with ranks.started(run, attempt, world, range(first, first + world.per_node)) as local:
            return _look_after(run, attempt, local, store, node)
    except (RodsError, OSError) as error:
        _speak_for_trainer(run, attempt, f"the trainer's node {node}: {error}")
        return 1


def _speak_for_trainer(run: RunDir, attempt: int, sentence: str) -> None:
    """Rank 0 waits for the ranks of this node, where no signal reaches it, and is killed without a word."""
    print(sentence, file=sys.stderr)
    if outcome.read(run, attempt) is None and run.last_attempt() == attempt:
        outcome.record(run, attempt, Outcome(Status.failed, sentence))


def find(run: RunDir, attempt: int, config: Config, wait_s: float | None = None) -> World:
    """Where rank 0 has said that it is.

    Args:
        wait_s: for it; `launch.heartbeat_timeout_s` where it is None.

    Raises:
        RendezvousError: it has not, within that time.
        CorruptFileError: the file is damaged.
    """
    patience_s = config.launch.heartbeat_timeout_s if wait_s is None else wait_s
    folder, deadline = run.attempt_dir(attempt), time.monotonic() + patience_s
    while True:
        with suppress(FileNotFoundError):
            said = read_json(folder / _FILE)
            return World(
                config.cluster.train.nodes, ranks.count(config), str(said["address"]), int(said["port"])
            )
        if time.monotonic() >= deadline:
            raise RendezvousError(
                f"{folder / _FILE}: expected rank 0's address within {patience_s:g} s (launch.heartbeat_timeout_s), "
                f"found no file; {folder / 'train.err'} may say why it did not start"
            )
        time.sleep(POLL_S)


def client(address: str, port: int, wait_s: float = _STORE_S) -> dist.TCPStore:
    """A connection of one's own to rank 0's store.

    Args:
        wait_s: for it, and later for each answer.

    Raises:
        RendezvousError: it cannot be reached.
    """
    try:
        return dist.TCPStore(address, port, is_master=False, timeout=timedelta(seconds=wait_s))
    except RuntimeError as error:
        raise RendezvousError(
            f"expected rank 0's store at {address}:{port}, could not reach it ({error}); the nodes of a job must reach "
            "each other's host names"
        ) from error


def _look_after(run: RunDir, attempt: int, local: Local, store: dist.Store, node: int) -> int:
    """Until the ranks have ended, or rank 0 has: give a sign of life, and tell rank 0 of a loss."""
    while not local.ended():
        loss = local.failed()
        try:
            store.add(_beats(node), 1)
            if loss is not None:
                store.set(_lost(node), loss.sentence)
        except RuntimeError:
            # Rank 0 has ended, and these ranks end with it: in order if it could say how the attempt went.
            local.close()
            return 1 if outcome.read(run, attempt) is None else 0
        if loss is not None:
            print(f"train: {loss.sentence}", file=sys.stderr)
            # srun ends all tasks when this one ends badly: rank 0 first gets to say why.
            local.close()
            return 1
        time.sleep(_BEAT_EVERY_S)
    with suppress(RuntimeError):  # rank 0 did not wait so long
        store.set(_ended(node), "")
    return 0


def _beats(node: int) -> str:
    return f"rods/node/{node}/beats"


def _lost(node: int) -> str:
    return f"rods/node/{node}/lost"


def _ended(node: int) -> str:
    return f"rods/node/{node}/ended"


def _host(node: int) -> str:
    return f"rods/node/{node}/host"
