"""One rank of a step in whose rollouts rank 0 is asked to stop: `leaving_rank.py PORT MOMENT`, with RANK.

`first` leaves in rank 0's own episodes, `waiting` while it waits for the other's; says how its part of the step ended.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch.distributed as dist

from rods.training.patience import AbandonedError, shared
from rods.training.ranks import follow, leading


class Slow:
    """A policy whose episodes end by themselves on rank 0 after a moment, on the other never."""

    engine_name = "slow"

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.said: list[str] = []

    def run(
        self, tasks: Sequence[Any], step: int, on_progress: Callable[[int, int], None], *_: Any
    ) -> list[str]:
        """Play until done, or told to leave."""
        try:
            return shared(lambda: self._play(on_progress), lambda: on_progress(1, 1))
        except AbandonedError as error:
            self.said.append(str(error))
            raise

    def save(self, folder: Path) -> None:
        """Say that all ranks are together again."""
        dist.barrier()
        self.said.append(f"saved {folder}")

    def _play(self, on_progress: Callable[[int, int], None]) -> str:
        on_progress(0, 1)
        while self.rank:
            time.sleep(0.05)
            on_progress(0, 1)
        return "played"


def main(port: str, moment: str) -> None:
    """Rank 0 leaves at `moment` and saves; the other does what it hears."""
    rank = int(os.environ["RANK"])
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    dist.init_process_group("gloo")
    policy = Slow(rank)
    if rank:
        follow(policy)  # type: ignore[arg-type]
    else:
        lead(policy, moment)
    print(json.dumps(policy.said))
    dist.destroy_process_group()


def lead(policy: Slow, moment: str) -> None:
    """The loop's part: a step that is left, then a checkpoint."""

    def ask(done: int, _total: int) -> None:
        if moment == "first" or done:
            raise AbandonedError("asked to stop")

    with leading(policy) as leader:  # type: ignore[arg-type]
        try:
            leader.run([], 1, ask, lambda phase: None)
        except AbandonedError:
            leader.save(Path("here"))


if __name__ == "__main__":
    main(*sys.argv[1:])
