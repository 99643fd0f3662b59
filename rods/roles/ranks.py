"""The trainer's other ranks: processes of the same node, started and ended by the role's own process, which is rank 0.

One rank has one GPU, the only one that it sees. What a rank writes goes into `train-rank<number>.out` and `.err` in
the attempt's folder. Whoever loses another ends: the others with rank 0's process, rank 0 with a message that names
the rank that was lost.
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
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch
import torch.distributed as dist

from rods.config import Config
from rods.errors import RodsError
from rods.exchange.rundir import RunDir

PARENT = "RODS_RANK_OF"  # id of rank 0's process
_LOOPBACK = "127.0.0.1"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_POLL_S = 0.5
_GRACE_S = 15.0  # for rank 0 to notice the loss by itself, and for the others to end
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
# Signals go to all processes of a job, and are rank 0's to act on: a rank ignores them from its very beginning.
_DEAF = ("sh", "-c", 'trap "" TERM INT USR2; exec "$@"', "rank")


class RankLostError(RodsError):
    """A rank ended before the run did."""


class GpuMissingError(RodsError):
    """There are fewer GPUs than ranks."""


def count(config: Config) -> int:
    """Ranks on this node: `training.ranks_per_node`, else one a GPU of `cluster.train`.

    One where no GPU is seen, and where servers have some of them (`rollout.placement=served`).
    """
    if config.training.ranks_per_node is not None:
        return config.training.ranks_per_node
    if config.rollout.placement == "served":
        return 1
    return max(1, config.cluster.train.gpus_per_node) if torch.cuda.device_count() else 1


@contextmanager
def others(run: RunDir, attempt: int, config: Config) -> Iterator[None]:
    """While it lasts the ranks beside this process, rank 0, are there; nothing happens where it is the only one.

    Raises:
        GpuMissingError: see there.
        RankLostError: one of them ended, and this process could not go on.
    """
    ranks = count(config)
    if ranks == 1:
        yield
        return
    own = gpus(ranks)
    # The store comes first and picks the port, so that no other run can be in its way.
    store = dist.TCPStore(_LOOPBACK, 0, ranks, is_master=True, wait_for_workers=False)
    os.environ.update(environment(0, ranks, store.port, own))
    with ExitStack() as stack:
        processes = [
            _start(stack, run, attempt, rank, environment(rank, ranks, store.port, own))
            for rank in range(1, ranks)
        ]
        peers = Peers(processes, run.attempt_dir(attempt))
        stack.callback(peers.close)
        try:
            yield
        except RuntimeError as error:
            if lost := peers.lost(_GRACE_S):
                raise RankLostError(lost) from error
            raise


class Peers:
    """The other ranks' processes, in the order of their ranks from 1. A thread ends this process when one is lost.

    Args:
        processes: started.
        folder: of their logs.
    """

    def __init__(self, processes: Sequence[subprocess.Popen[bytes]], folder: Path) -> None:
        self._processes = processes
        self._folder = folder
        self._closing = threading.Event()
        threading.Thread(target=self._watch, name="ranks", daemon=True).start()

    def lost(self, wait_s: float = 0.0) -> str:
        """Which rank has failed and how, "" when none has within `wait_s`."""
        deadline = time.monotonic() + wait_s
        while not (failed := self._failed()) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        if not failed:
            return ""
        rank, status = failed[0]
        how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        return (
            f"rank {rank} of {len(self._processes) + 1} ended {how} before the run did; see "
            f"{log_stem(self._folder, rank)}.err. The run goes on from its last checkpoint when it is resumed."
        )

    def close(self) -> None:
        """Wait until all have ended; those that do not are killed."""
        self._closing.set()
        deadline = time.monotonic() + (0.0 if sys.exc_info()[0] else _GRACE_S)
        for process in self._processes:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _failed(self) -> list[tuple[int, int]]:
        statuses = [(rank, process.poll()) for rank, process in enumerate(self._processes, 1)]
        return [(rank, status) for rank, status in statuses if status]

    def _watch(self) -> None:
        """Rank 0 may wait in a collective of the GPUs, which does not tell it of the loss."""
        while not self._closing.wait(_POLL_S):
            if self._failed():
                if not self._closing.wait(_GRACE_S):
                    print(f"train: {self.lost()}", file=sys.stderr, flush=True)
                    os._exit(1)
                return


def log_stem(folder: Path, rank: int) -> Path:
    """A rank's logs without their endings ".out" and ".err"."""
    return folder / f"train-rank{rank}"


def live_as_follower() -> None:
    """Called by another rank as it begins: the end of rank 0's process is this one's."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(os.environ[PARENT]):
        sys.exit(1)


def _start(
    stack: ExitStack, run: RunDir, attempt: int, rank: int, added: dict[str, str]
) -> subprocess.Popen[bytes]:
    stem = log_stem(run.attempt_dir(attempt), rank)
    out, err = (
        stack.enter_context(open(f"{stem}{ending}", "a"))  # noqa: SIM115 (by the stack)
        for ending in (".out", ".err")
    )
    return subprocess.Popen(
        [*_DEAF, sys.executable, "-u", "-m", "rods.roles.following", str(run.path), str(attempt)],
        env={**os.environ, **added},
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
    )


def gpus(ranks: int) -> list[str]:
    """The GPU of each rank, as CUDA_VISIBLE_DEVICES names it; [] on CPU. CUDA is not started by asking."""
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


def environment(rank: int, ranks: int, port: int, own: Sequence[str]) -> dict[str, str]:
    """What torch finds the others by. A rank that sees one GPU has it under number 0, for every library in it."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_RANK": "0" if own else str(rank),
        "MASTER_ADDR": _LOOPBACK,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # rank 0 joins the store that is there
        PARENT: str(os.getpid()),
        **({"GLOO_SOCKET_IFNAME": "lo"} if "GLOO_SOCKET_IFNAME" not in os.environ else {}),
        **({_VISIBLE: own[rank]} if own else {}),
    }
