"""One rank of a launched learner: trains a step and writes its figures (run by torchrun in the tests).

Usage: learner_rank.py POLICY_DIR OUT_DIR ZERO_STAGE
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist
from learner_examples import TRAINING, learner, samples

from rods.training.batch import BatchError


def main(policy_dir: Path, out: Path, zero_stage: int) -> None:
    """Update, check that an indivisible batch is refused on every rank, save, load and export."""
    trained = learner(
        policy_dir, replace(TRAINING, learning_rate=1e-4, mini_batches=2, zero_stage=zero_stage)
    )
    try:
        trained.update(*samples(7))
    except BatchError as error:
        (out / f"refused{trained.rank}.txt").write_text(str(error))
    trained.order.manual_seed(0)  # the refused batch has drawn an order
    metrics = trained.update(*samples(12))
    (out / f"metrics{trained.rank}.json").write_text(json.dumps(metrics))
    trained.save(out / "state")
    trained.load(out / "state")
    weights = dict(trained.weights())
    if trained.rank == 0:
        torch.save(weights, out / "weights.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
