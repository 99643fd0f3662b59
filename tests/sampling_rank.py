"""One rank of a sampler: `sampling_rank.py STORE` with RANK and WORLD_SIZE; prints what it drew as JSON."""

from __future__ import annotations

import json
import os
import sys

import torch.distributed as dist

from rods.training.sampling import Sampler
from tests.unit.test_training_sampling import CHAT, SeededEngine, config, silent, task


def main(store: str) -> None:
    """Draw five tasks' groups, some of them again, and say what every rank must agree on and what this one asked."""
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    engine = SeededEngine(lambda seed: seed % 5 == 0)
    draw = Sampler(config(resamples=4), engine, CHAT).take([task(name) for name in "abcde"], 1, silent)
    groups = [[(r.task_id, r.index, r.reward, r.token_ids) for r in group] for group in draw.observed]
    asked = sorted({request.id.split("/")[0] for _, request in engine.asked})
    trained = [[rollout.task_id for rollout in group] for group in draw.trained]
    print(json.dumps([groups, trained, draw.drawn_again, draw.generated, asked]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
