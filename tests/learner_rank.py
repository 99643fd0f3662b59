"""One rank of launched learners: trains steps at every ZeRO stage and writes its figures (run by torchrun in tests).

Usage: learner_rank.py POLICY_DIR OUT_DIR
"""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist
from learner_examples import PPO, RANKED, learner, ppo_step, samples

from rods.training.batch import BatchError
from rods.training.learner import Learner

STAGES = (0, 1, 2, 3)


def main(policy_dir: Path, out: Path) -> None:
    """GRPO at all stages, then PPO at the two that partition least and most."""
    for stage in STAGES:
        grpo(policy_dir, out / f"grpo{stage}", stage)
        taken_over(policy_dir, out / f"resharded{stage}", stage)
    for stage in (STAGES[0], STAGES[-1]):
        ppo(policy_dir, out / f"ppo{stage}", stage)
    dist.destroy_process_group()


def grpo(policy_dir: Path, out: Path, stage: int) -> None:
    """Update, with an indivisible batch before it, save, load and gather."""
    out.mkdir(exist_ok=True)
    trained = learner(policy_dir, replace(RANKED, zero_stage=stage))
    try:
        trained.update(*samples(7))
    except BatchError as error:
        (out / f"refused{trained.rank}.txt").write_text(str(error))
    trained.order.manual_seed(0)  # the refused batch has drawn an order
    told = trained.update(*samples(12))
    trained.save(out / "state")
    trained.load(out / "state")
    write(trained, out, told)


def taken_over(policy_dir: Path, out: Path, stage: int) -> None:
    """Go on from `one`, which a single process wrote, and write a step's state to `two` while the next one runs."""
    trained = learner(policy_dir, replace(RANKED, zero_stage=stage))
    trained.load(out / "one")
    weights = dict(trained.weights())
    if trained.rank == 0:
        torch.save(weights, out / "loaded.pt")
    trained.update(*samples(12, 1))
    with trained.capture() as copy:
        writing = threading.Thread(target=copy.save, args=(out / "two",))
        if trained.rank == 0:
            writing.start()
        told = trained.update(*samples(12, 2))
        if trained.rank == 0:
            writing.join()
    write(trained, out, told)


def ppo(policy_dir: Path, out: Path, stage: int) -> None:
    """Two steps of critic and policy; where a single process has done the first, it is gone on from there."""
    out.mkdir(exist_ok=True)
    trained = learner(policy_dir, replace(PPO, zero_stage=stage))
    if (out / "one").exists():
        trained.load(out / "one")
    else:
        ppo_step(trained, samples(12)[0])
    write(trained, out, ppo_step(trained, samples(12)[0]))


def write(trained: Learner, out: Path, told: dict[str, float]) -> None:
    """This rank's metrics, and the weights once."""
    (out / f"metrics{trained.rank}.json").write_text(json.dumps(told))
    weights = dict(trained.weights())
    if trained.rank == 0:
        torch.save(weights, out / "weights.pt")
    dist.barrier()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
