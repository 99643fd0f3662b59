"""One rank of `test_checkpoint_ranks`: saves once and tells what came of it.

    python checkpoint_rank.py RUN RANK FAILING_RANK TIMES ERROR

The learner of FAILING_RANK raises ERROR the first TIMES times; rank 0 waits for a full disk as a role does.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import torch.distributed as dist

from rods.exchange import pressure
from rods.exchange.pressure import DiskFullError
from rods.exchange.rundir import RunDir
from rods.training import checkpoint
from rods.training.checkpoint import Position

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


def main(run_dir: str, rank: str, failing: str, times: str, error: str) -> None:
    store = dist.FileStore(f"{run_dir}.store", 2)
    dist.init_process_group("gloo", store=store, rank=int(rank), world_size=2)
    errors = [ERRORS[error]] * int(times) if rank == failing else []
    run = RunDir(Path(run_dir))
    policy = pressure.Pause("train", lambda: False, lambda *_, **__: None)
    try:
        with pressure.using(policy):
            checkpoint.save(run, Position(1, 1, 10), Rank(int(rank), errors), {"n": 1}, 2)
    except Exception as found:  # noqa: BLE001 (told to the test)
        print(f"{type(found).__name__}: {found}")
    else:
        print("saved")
    sys.stdout.flush()
    dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
