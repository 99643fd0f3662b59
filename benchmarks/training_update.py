"""One GRPO update beside TRL's: `python -m benchmarks.training_update --json`.

Rollouts of the shipped policy are drawn once, 12 tasks × 8 as in the tiny experiment. Then each side trains on
them in fresh processes, alternating, on the same number of threads (`benchmarks.training_update_sides`). Speed is
told in CPU time, so that other load on the machine weighs little, and in wall time. Before any figure counts, both
sides must have found the same gradient norm.
"""

from __future__ import annotations

import argparse
import json
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from math import isclose
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure, compare
from rods.config import (
    ModelConfig,
    RewardConfig,
    RolloutConfig,
    SimulationConfig,
    TasksConfig,
    TrainingConfig,
)
from rods.errors import RodsError

PEER = "TRL 1.16.0 GRPOTrainer"
TRAINING = TrainingConfig(
    tasks_per_step=12,
    group_size=8,
    learning_rate=3e-4,
    warmup_fraction=0.0,
    loss_aggregation="token-mean",
    micro_batch_tokens=4096,
)
SAME_NORM = 2e-3  # relative; TRL adds 1e-4 to the group's deviation, we 1e-6


class UnequalWorkError(RodsError):
    """The sides did not compute the same gradient."""


@dataclass(frozen=True)
class Rounds:
    """All answers of a side, by mini-batches an update."""

    ours: list[dict[str, Any]]
    peer: list[dict[str, Any]]


def measure(repeats: int, updates: int, threads: int, rows: int) -> dict[str, Figure]:
    """All figures.

    Args:
        repeats: processes a side.
        updates: timed ones in each.
        threads: of torch.
        rows: TRL's `per_device_train_batch_size`, for its best speed.

    Raises:
        UnequalWorkError: the gradient norms differ.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rollouts.pkl"
        tokens = _draw(path)
        one = _rounds(path, repeats, [updates, 1, rows, threads])
        two = _rounds(path, repeats, [updates, 2, rows, threads])
    refuse_unequal(one)
    return {
        "update": _speed(one, tokens, "cpu_s", "tokens per CPU second"),
        "update_wall": _speed(one, tokens, "wall_s", "tokens/s"),
        "update_in_two": _speed(two, tokens, "cpu_s", "tokens per CPU second"),
        "update_memory": figure(one, lambda answer: [answer["peak_mib"]], "MiB"),
    }


def _draw(path: Path) -> int:
    """Draw the rollouts into a file; returns how many tokens they have."""
    from rods import tasks
    from rods.model_path import resolve
    from rods.rollout.chat import Chat, load_tokenizer
    from rods.rollout.engine import build
    from rods.rollout.episode import collect
    from rods.simulation import protocols

    model, rollout = ModelConfig(), RolloutConfig(engine="hf")
    model_dir = Path(resolve(model.path))
    engine = build(model_dir, model, rollout, 0)
    chat = Chat(load_tokenizer(model_dir), model, protocols.get(SimulationConfig().protocol))
    chosen = tasks.load(TasksConfig(train_count=48, heldout_count=0)).train[: TRAINING.tasks_per_step]
    groups = collect(
        engine, chat, chosen, TRAINING.group_size, rollout, SimulationConfig(), RewardConfig(), seed=1
    )
    path.write_bytes(pickle.dumps((model_dir, TRAINING, groups)))
    return sum(len(each.token_ids) for each in chain.from_iterable(groups))


def _rounds(path: Path, repeats: int, settings: Sequence[int]) -> Rounds:
    """Alternating processes of either side."""
    rounds = Rounds([], [])
    for _ in range(repeats):
        rounds.ours.append(_ask("ours", path, *settings))
        rounds.peer.append(_ask("trl", path, *settings))
    return rounds


def _ask(side: str, path: Path, updates: int, mini_batches: int, rows: int, threads: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.training_update_sides", side, str(path)]
    options = {"updates": updates, "mini-batches": mini_batches, "rows": rows, "threads": threads}
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{side} failed:\n{done.stderr[-3000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def refuse_unequal(rounds: Rounds) -> None:
    """Refuse to compare sides that computed different gradients.

    Raises:
        UnequalWorkError: the first updates' gradient norms differ.
    """
    norms = [answer["grad_norm"] for answer in (*rounds.ours, *rounds.peer)]
    if not all(isclose(norm, norms[0], rel_tol=SAME_NORM) for norm in norms):
        raise UnequalWorkError(
            f"expected one gradient norm on both sides, found {norms}: nothing is comparable"
        )


def _speed(rounds: Rounds, tokens: int, kind: str, unit: str) -> Figure:
    return figure(rounds, lambda answer: [tokens / seconds for seconds in answer[kind]], unit)


def figure(rounds: Rounds, values: Callable[[dict[str, Any]], list[float]], unit: str) -> Figure:
    """The figure of a quantity that each answer holds one or more values of.

    Args:
        rounds: all answers.
        values: from an answer.
        unit: of the values.
    """
    ours = [value for answer in rounds.ours for value in values(answer)]
    peer = [value for answer in rounds.peer for value in values(answer)]
    return compare(ours, peer, PEER, unit, 1)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training_update", description=__doc__)
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object in a line, figure by figure"
    )
    parser.add_argument("--repeats", type=int, default=3, help="processes a side")
    parser.add_argument("--updates", type=int, default=3, help="timed updates in each")
    parser.add_argument("--threads", type=int, default=1, help="of torch, on both sides")
    parser.add_argument("--rows", type=int, default=16, help="TRL's per_device_train_batch_size")
    chosen = parser.parse_args(arguments)
    figures = measure(chosen.repeats, chosen.updates, chosen.threads, chosen.rows)
    if chosen.json:
        print(json.dumps({name: asdict(each) for name, each in figures.items()}))
        return
    for name, each in figures.items():
        print(f"{name:15} ours {each.ours:10} {each.unit:22} {PEER} {each.peer:10}  × {each.ratio}")


if __name__ == "__main__":
    main()
