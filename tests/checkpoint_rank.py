"""One rank of `test_checkpoint_ranks`: saves once and tells what came of it.

    python checkpoint_rank.py RUN RANK FAILING_RANK TIMES ERROR WAY

The learner of FAILING_RANK raises ERROR the first TIMES times; rank 0 waits for a full disk as a role does. WAY: all
ranks save (together), or each in a thread at rank 0's word (beside), while they reduce a tensor again and again.
"""

from __future__ import annotations

import errno
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
import torch.distributed as dist

from rods.exchange import pressure
from rods.exchange.pressure import DiskFullError
from rods.exchange.rundir import RunDir
from rods.training import checkpoint, together
from rods.training.beside import Writers
from rods.training.checkpoint import Position, Saves

ERRORS = {
    "full": DiskFullError(errno.ENOSPC, "full", "somewhere"),
    "denied": PermissionError(errno.EACCES, "denied"),
    "library": RuntimeError("a library's own words"),
}


class Rank:
    """A learner whose part is one file."""

    def __init__(self, rank: int, errors: list[Exception]) -> None:
        self.rank, self._errors = rank, errors

    def save(self, folder: Path) -> None:
        if self._errors:
            raise self._errors.pop()
        (folder / f"rank{self.rank}.pt").write_text("weights")


def main(run_dir: str, rank: str, failing: str, times: str, error: str, way: str) -> None:
    store = dist.FileStore(f"{run_dir}.store", 2)
    dist.init_process_group("gloo", store=store, rank=int(rank), world_size=2)
    errors = [ERRORS[error]] * int(times) if rank == failing else []
    learner = Rank(int(rank), errors)
    policy = pressure.Pause("train", lambda: False, lambda *_, **__: None)
    try:
        with pressure.using(policy):
            {"together": save, "beside": beside}[way](RunDir(Path(run_dir)), learner)
    except Exception as found:  # noqa: BLE001 (told to the test)
        print(f"{type(found).__name__}: {found}")
    else:
        print("saved")
    sys.stdout.flush()
    dist.barrier()
    os._exit(0)


def save(run: RunDir, learner: Saves) -> None:
    """This rank's part of a save."""
    checkpoint.save(run, Position(1, 1, 10), learner, {"n": 1}, 2)


def beside(run: RunDir, learner: Rank) -> None:
    """Likewise, in a thread of rank 0's, which tells the other's."""
    shared = Writers().share(learner)

    def lead() -> None:
        with together.led(True), shared as saves:
            save(run, saves)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lead) if learner.rank == 0 else None
        for _ in range(50):
            dist.all_reduce(torch.ones(1))
        if writing is not None:
            writing.result()


if __name__ == "__main__":
    main(*sys.argv[1:])
