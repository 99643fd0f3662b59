"""How long a checkpoint holds up training, written meanwhile or waited for: `python -m benchmarks.checkpoint --json`.

For each model of random weights the real learner is saved by the loop's own saver, again and again, an update between:
`stall` is how long the saver's call takes (ours: `training.async_checkpoint`, a copy in host memory; peer: until the
checkpoint is complete), `update` how long the update that follows takes (ours: while the checkpoint is written).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.estimate import MODELS, TRAINING, make_model
from benchmarks.figure import Figure, compare
from rods.config import Config, ModelConfig, TasksConfig
from rods.exchange.attempt import Fence
from rods.exchange.rundir import RunDir
from rods.tasks import load
from rods.training.learner import Learner
from rods.training.ledger import Ledger
from rods.training.saving import Saver

WAITS = "waiting until it is complete"
SEQUENCES, LENGTH = 4, 64  # of an update


@dataclass(frozen=True)
class Sample:
    """What training reads of a rollout."""

    token_ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float, ...]


@dataclass(frozen=True)
class Times:
    """Seconds, one entry a checkpoint."""

    stalls: list[float]
    updates: list[float]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["11m", "40m"])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    figures: dict[str, Figure] = {}
    for name in options.models:
        figures |= measure(name, options.repeats)
    if options.json:
        print(json.dumps({name: asdict(figure) for name, figure in figures.items()}, indent=1))
    else:
        for name, figure in figures.items():
            print(f"{name}: {figure.ours} {figure.unit}, {figure.peer_name} {figure.peer} {figure.unit}")


def measure(name: str, repeats: int) -> dict[str, Figure]:
    """`stall` and `update` of one of `MODELS`."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        make_model(model, MODELS[name])
        beside, waiting = (
            times(model, Path(folder), in_background, repeats) for in_background in (True, False)
        )
    return {
        f"stall_{name}": compare(beside.stalls, waiting.stalls, WAITS, "s", 3),
        f"update_{name}": compare(beside.updates, waiting.updates, WAITS, "s", 3),
    }


def times(model: Path, folder: Path, in_background: bool, repeats: int) -> Times:
    """Of one way to write; the first checkpoint, which allocates memory, is not counted."""
    config = Config(tasks=TasksConfig(train_count=8, heldout_count=0))
    tasks = load(config.tasks)
    run = RunDir.create(folder, "checkpoint", "0" * 64)
    attempt = run.next_attempt()
    ledger = Ledger.begin(run, attempt, config, tasks)
    training = replace(TRAINING, async_checkpoint=in_background, keep_checkpoints=1)
    learner = Learner(model, ModelConfig(), training, total_steps=100, seed=0)
    saver = Saver(run, Fence(run, attempt), learner, ledger, training)  # type: ignore[arg-type]
    rollouts = samples()
    advantages = [(-1.0) ** index for index in range(SEQUENCES)]
    learner.update(rollouts, advantages)
    found = Times([], [])
    for step in range(repeats + 1):
        found.stalls.append(seconds(lambda step=step: saver.checkpoint(step, {})))  # type: ignore[misc]
        found.updates.append(seconds(lambda: learner.update(rollouts, advantages)))
        saver.finish()
    saver.close()
    ledger.close()
    return Times(found.stalls[1:], found.updates[1:])


def samples() -> Sequence[Sample]:
    """Rollouts of which all but the first token were sampled."""
    mask = (0,) + (1,) * (LENGTH - 1)
    return [
        Sample(tuple(range(7 + index, 7 + index + LENGTH)), mask, (-1.0,) * LENGTH)
        for index in range(SEQUENCES)
    ]


def seconds(action: Callable[[], object]) -> float:
    """How long it takes, in wall time."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
