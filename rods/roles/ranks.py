"""The trainer's ranks: processes that train together, on one node or on several.

Each node has one process of the role (a task of Slurm's), which starts the node's other ranks and ends them. That of
the first node is rank 0 itself; those of further nodes only look after their ranks (`rods.roles.nodes`). One rank has
one GPU, the only one that it sees. What a rank writes goes into `train-rank<number>.out` and `.err` in the attempt's
folder. Whoever loses another ends: the others with their node's process, rank 0 with a message that names what was
lost.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
import torch.distributed as dist

from rods.config import Config
from rods.errors import RodsError
from rods.exchange.rundir import RunDir
from rods.roles import last_words
from rods.roles.notice import Then

PARENT = "RODS_RANK_OF"  # id of the process that started the rank
LOOPBACK = "127.0.0.1"
POLL_S = 0.5
GRACE_S = 15.0  # for rank 0 to notice a loss by itself, and for the others to end
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
# Signals go to all processes of a job, and are rank 0's to act on: a rank ignores them from its very beginning.
_DEAF = ("sh", "-c", 'trap "" TERM INT USR2; exec "$@"', "rank")


class RankLostError(RodsError):
    """A rank ended before the run did."""


class NodeLostError(RankLostError):
    """A node's process is gone without a word. The node may be: another one can take its place."""


class GpuMissingError(RodsError):
    """There are fewer GPUs than ranks."""


@dataclass(frozen=True)
class World:
    """All ranks, and where they find each other: at rank 0's store.

    Attributes:
        nodes: of the trainer.
        per_node: ranks on each of them.
    """

    nodes: int
    per_node: int
    address: str
    port: int

    @property
    def size(self) -> int:
        """Ranks in all."""
        return self.nodes * self.per_node


@dataclass(frozen=True)
class Loss:
    """What was lost, as a sentence; `of_node`: a whole node, which the run can be put back for."""

    sentence: str
    of_node: bool = False

    def error(self) -> RankLostError:
        """To be raised by whoever noticed."""
        return (NodeLostError if self.of_node else RankLostError)(self.sentence)


class Peers(Protocol):
    """Ranks that this process looks after or looks at."""

    def failed(self, hurry: bool) -> Loss | None:
        """What is lost, None while nothing is.

        Args:
            hurry: something is known to be lost; what has given no sign for seconds is it.
        """


def count(config: Config) -> int:
    """Ranks on a node: `training.ranks_per_node`, else one a GPU of `cluster.train`.

    One where no GPU is seen, and where servers have some of them (`rollout.placement=served`).
    """
    if config.training.ranks_per_node is not None:
        return config.training.ranks_per_node
    if config.rollout.placement == "served":
        return 1
    return max(1, config.cluster.train.gpus_per_node) if torch.cuda.device_count() else 1


def store(world: World) -> tuple[dist.TCPStore, World]:
    """Rank 0's store. It picks its port itself, so that no other run can be in its way."""
    opened = dist.TCPStore(LOOPBACK, 0, world.size, is_master=True, wait_for_workers=False)
    return opened, World(world.nodes, world.per_node, world.address, opened.port)


class Local:
    """The ranks that this process has started.

    Args:
        processes: by the number of their rank.
        world: of all ranks.
        folder: of their logs.
    """

    def __init__(self, processes: dict[int, subprocess.Popen[bytes]], world: World, folder: Path) -> None:
        self._processes, self._world, self._folder = processes, world, folder

    def failed(self, hurry: bool = False) -> Loss | None:
        """See `Peers`."""
        del hurry  # a process of one's own is seen to end
        for rank, process in self._processes.items():
            status = process.poll()
            if status:
                return Loss(self._how(rank, status))
        return None

    def ended(self) -> bool:
        """Whether all have done their work."""
        return all(process.poll() == 0 for process in self._processes.values())

    def close(self, patience_s: float = GRACE_S) -> None:
        """Wait until all have ended; those that do not within `patience_s` are killed."""
        deadline = time.monotonic() + patience_s
        for process in self._processes.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _how(self, rank: int, status: int) -> str:
        how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        return (
            f"rank {rank} of {self._world.size} ended {how} before the run did; see "
            f"{log_stem(self._folder, rank)}.err. The run goes on from its last checkpoint when it is resumed."
        )


class Watch:
    """Looks after peers in a thread, which ends this process when one is lost and rank 0's own work does not.

    Rank 0 may wait in a collective of the GPUs, which does not tell it of the loss.
    """

    def __init__(self, peers: Sequence[Peers]) -> None:
        self._peers = peers
        self._closing = threading.Event()
        threading.Thread(target=self._watch, name="ranks", daemon=True).start()

    def lost(self, wait_s: float) -> Loss | None:
        """What is lost, None when nothing is seen to be within `wait_s`; asked when a collective has failed."""
        deadline = time.monotonic() + wait_s
        while (found := self._failed(hurry=True)) is None and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return found

    def close(self) -> None:
        """Nobody is looked after any more."""
        self._closing.set()

    def _failed(self, *, hurry: bool) -> Loss | None:
        found = (peers.failed(hurry) for peers in self._peers)
        return next((loss for loss in found if loss is not None), None)

    def _watch(self) -> None:
        while not self._closing.wait(POLL_S):
            loss = self._failed(hurry=False)
            if loss is not None:
                if not self._closing.wait(GRACE_S):
                    last_words.end(loss.sentence, Then.put_back if loss.of_node else Then.failed)
                return


@contextmanager
def started(run: RunDir, attempt: int, world: World, ranks: Sequence[int]) -> Iterator[Local]:
    """While it lasts `ranks`, those of this node that this process is none of, are there.

    Raises:
        GpuMissingError: see there.
    """
    own = gpus(world.per_node)
    processes: dict[int, subprocess.Popen[bytes]] = {}
    local = Local(processes, world, run.attempt_dir(attempt))
    try:
        for rank in ranks:
            processes[rank] = _start(run, attempt, rank, environment(rank, world, own))
        yield local
    except BaseException:
        local.close(0.0)
        raise
    local.close()


@contextmanager
def watched(peers: Sequence[Peers]) -> Iterator[None]:
    """While it lasts this process, rank 0, ends or raises when one of `peers` is lost.

    Raises:
        RankLostError: one of them ended, and this process could not go on.
    """
    watch = Watch(peers)
    try:
        yield
    except RuntimeError as error:
        if loss := watch.lost(GRACE_S):
            raise loss.error() from error
        raise
    finally:
        watch.close()


def log_stem(folder: Path, rank: int) -> Path:
    """A rank's logs without their endings ".out" and ".err"."""
    return folder / f"train-rank{rank}"


def live_as_follower() -> None:
    """Called by another rank as it begins: the end of the process that started it is this one's."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(os.environ[PARENT]):
        sys.exit(1)


def _start(run: RunDir, attempt: int, rank: int, added: dict[str, str]) -> subprocess.Popen[bytes]:
    stem = log_stem(run.attempt_dir(attempt), rank)
    with open(f"{stem}.out", "a") as out, open(f"{stem}.err", "a") as err:
        return subprocess.Popen(
            [*_DEAF, sys.executable, "-u", "-m", "rods.roles.following", str(run.path), str(attempt)],
            env={**os.environ, **added},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )


def gpus(ranks: int) -> list[str]:
    """The GPU of each of a node's ranks, as CUDA_VISIBLE_DEVICES names it; [] on CPU. CUDA is not started by asking.

    Raises:
        GpuMissingError: see there.
    """
    found = torch.cuda.device_count()
    if not found:
        return []
    visible = os.environ.get(_VISIBLE)
    names = visible.split(",") if visible else [str(number) for number in range(found)]
    if found < ranks:
        raise GpuMissingError(
            f"{ranks} ranks need a GPU each, this process sees {found}: set training.ranks_per_node={found}, or "
            f"have {ranks} allocated (cluster.train.gpus_per_node)"
        )
    return names[:ranks]


def environment(rank: int, world: World, own: Sequence[str]) -> dict[str, str]:
    """What torch finds the others by. A rank that sees one GPU has it under number 0, for every library in it.

    Args:
        own: the GPUs of the rank's node.
    """
    place = rank % world.per_node
    # On several nodes gloo must not take the loopback: it takes the interface of the host's name.
    alone = world.nodes == 1 and "GLOO_SOCKET_IFNAME" not in os.environ
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world.size),
        "LOCAL_RANK": "0" if own else str(place),
        "MASTER_ADDR": world.address,
        "MASTER_PORT": str(world.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # rank 0 joins the store that is there
        PARENT: str(os.getpid()),
        **({"GLOO_SOCKET_IFNAME": "lo"} if alone else {}),
        **({_VISIBLE: own[place]} if own else {}),
    }
