"""Rollouts: episodes that advance on their own beside a loop with a turn barrier, and what the harness itself costs.

`python -m benchmarks.training_rollout --json --engine hf`

`rollout`: both sides play the same tasks in the same order with the same seeds on the same engine object, alternating;
figures are sampled tokens per second. Before each pass the engine takes weights, as before each step of training, and
so forgets the prefixes of the pass before. The peer has what our engine has (continuous batching, cached prefixes) and
refills its batch at every barrier; it only waits, turn by turn, until every message of the batch is written.

`overhead`: real training steps of the whole role (loop, journal, metrics, rollouts as text); its share of time that is
spent neither in a call of the engine nor in a call of the learner.

Times are CPU times of the process, so that other load on the machine weighs little; run it with OMP_NUM_THREADS=1,
where they are what a machine of one's own would take.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from benchmarks.figure import Figure, compare
from benchmarks.training_barrier import Barrier
from launchers import snapshot
from rods import tasks as task_sources
from rods.config import Config
from rods.config.compose import compose
from rods.exchange.rundir import RunDir
from rods.model_path import resolve
from rods.roles import train as role
from rods.rollout import engine as engines
from rods.rollout.chat import Chat, load_tokenizer
from rods.rollout.episode import collect
from rods.tasks.taskset import TaskSet
from rods.training.learner import Learner
from rods.training.policy import load_model
from rods.training.step import Stepper

SEED = 1


@dataclass(frozen=True)
class Played:
    """What one pass did: tokens sampled, CPU seconds, steps of the engine, and each episode's tokens by name."""

    tokens: int
    seconds: float
    steps: int
    episodes: dict[str, tuple[int, ...]]


class Sides:
    """Both sides on one engine."""

    def __init__(self, config: Config) -> None:
        model_dir = Path(resolve(config.model.path))
        self._config = config
        self._tasks = task_sources.load(config.tasks).train
        self._engine = Timed(engines.build(model_dir, config.model, config.rollout, config.seed))
        self._chat = Chat(load_tokenizer(model_dir), config.model)
        self._policy = load_model(model_dir, config.model.dtype)

    def ours(self) -> Played:
        """Every episode advances on its own."""
        config = self._config
        self._forget()
        start, steps = time.process_time(), self._engine.calls["step"]
        groups = collect(
            self._engine,
            self._chat,
            self._tasks,
            config.training.group_size,
            config.rollout,
            config.simulation,
            config.reward,
            SEED,
        )
        seconds = time.process_time() - start
        rollouts = [rollout for group in groups for rollout in group]
        episodes = {f"{rollout.task_id}/{rollout.index}": rollout.token_ids for rollout in rollouts}
        steps = self._engine.calls["step"] - steps
        return Played(sum(sum(rollout.mask) for rollout in rollouts), seconds, steps, episodes)

    def barrier(self, tokens: int) -> Played:
        """All wait for the slowest, turn by turn; `tokens` were sampled by the same seeds."""
        self._forget()
        start, steps = time.process_time(), self._engine.calls["step"]
        episodes = Barrier(self._engine, self._chat, self._config, SEED).play(self._tasks)
        return Played(tokens, time.process_time() - start, self._engine.calls["step"] - steps, episodes)

    def close(self) -> None:
        """End the engine."""
        self._engine.close()

    def _forget(self) -> None:
        self._engine.update_weights(self._policy.state_dict().items(), SEED)


def rollout_figure(config: Config, repeats: int) -> tuple[Figure, dict[str, Any]]:
    """The figure, and what the episodes were like."""
    sides = Sides(config)
    first = sides.ours()  # warms up
    ours, peer = [], []
    own = other = first
    for _ in range(repeats):
        own = sides.ours()
        other = sides.barrier(own.tokens)
        ours.append(own.tokens / own.seconds)
        peer.append(other.tokens / other.seconds)
    same = statistics.fmean(other.episodes[name] == tokens for name, tokens in own.episodes.items())
    sides.close()
    lengths = sorted(len(tokens) for tokens in first.episodes.values())
    about = {
        "episodes": len(lengths),
        "sampled_tokens": first.tokens,
        "length_p10_p50_p90_max": [lengths[int(q * (len(lengths) - 1))] for q in (0.1, 0.5, 0.9, 1.0)],
        "engine_steps": own.steps,
        "engine_steps_peer": other.steps,
        "episodes_equal_on_both_sides": same,
    }
    return compare(ours, peer, "turn barrier, same engine", "sampled tokens/CPU s", 1), about


class Timed:
    """Adds up the time inside the calls of another object, and counts them by name."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.seconds = 0.0
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        return partial(self._call, value) if callable(value) else value

    def _call(self, method: Callable[..., Any], *given: Any, **named: Any) -> Any:
        self.calls[method.__name__] += 1
        start = time.process_time()
        try:
            return method(*given, **named)
        finally:
            self.seconds += time.process_time() - start


def overhead_figure(config: Config) -> dict[str, Any]:
    """CPU seconds per step inside engine and learner and outside of both.

    A step lasts from its begin to the begin of the next, so that what the loop does in between counts; the first
    step, which warms up, and the last do not.
    """
    noting: list[Noting] = []

    def build(config: Config, tasks: TaskSet) -> Any:
        model_dir = Path(resolve(config.model.path))
        learner = Timed(Learner(model_dir, config.model, config.training, 10, config.seed))
        engine = Timed(engines.build(model_dir, config.model, config.rollout, config.seed))
        chat = Chat(load_tokenizer(model_dir), config.model)
        noting.append(Noting(Stepper(config, learner, engine, chat), learner, engine))  # type: ignore[arg-type]
        return noting[0]

    with tempfile.TemporaryDirectory() as folder:
        run = RunDir.create(Path(folder), config.experiment, "0" * 64)
        snapshot.freeze_config(run, config)
        role.train(run, run.next_attempt(), build)
    moments = noting[0].moments[1:]
    steps = [tuple(b - a for a, b in zip(one, other, strict=True)) for one, other in pairwise(moments)]
    shares = [1 - (learner + engine) / whole for whole, learner, engine in steps]
    return {
        "share": statistics.median(shares),
        "share_spread": (min(shares), max(shares)),
        "whole_s": statistics.median(whole for whole, _, _ in steps),
        "learner_s": statistics.median(learner for _, learner, _ in steps),
        "engine_s": statistics.median(engine for _, _, engine in steps),
        "own_s": statistics.median(whole - learner - engine for whole, learner, engine in steps),
        "steps": len(steps),
        "rollouts_per_step": config.training.tasks_per_step * config.training.group_size,
    }


class Noting:
    """A stepper that notes when its steps begin, and what learner and engine had taken by then."""

    def __init__(self, stepper: Stepper, learner: Timed, engine: Timed) -> None:
        self._stepper, self._learner, self._engine = stepper, learner, engine
        self.moments: list[tuple[float, float, float]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stepper, name)

    def run(self, *given: Any) -> Any:
        """A step."""
        self.moments.append((time.process_time(), self._learner.seconds, self._engine.seconds))
        return self._stepper.run(*given)


def settings(engine: str, tasks: int, group: int, concurrent: int, steps: int) -> Config:
    """The tiny experiment with an epoch of `steps` steps of `tasks` × `group` rollouts."""
    return compose(
        [
            "+experiment=rods_tiny",
            f"rollout.engine={engine}",
            f"rollout.max_concurrent={concurrent}",
            f"training.tasks_per_step={tasks}",
            f"training.group_size={group}",
            f"tasks.train_count={tasks * steps}",
            "training.epochs=1",
            "tasks.heldout_count=0",
            "buffer.barrier=false",
            "tracking.wandb=disabled",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training_rollout", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--engine", default="hf", choices=("hf", "vllm"))
    parser.add_argument("--figure", default="rollout", choices=("rollout", "overhead"))
    parser.add_argument("--tasks", type=int, default=32)
    parser.add_argument("--group", type=int, default=16)
    parser.add_argument("--concurrent", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3, help="of each side, or steps measured")
    chosen = parser.parse_args(arguments)
    steps = 1 if chosen.figure == "rollout" else chosen.repeats + 2
    config = settings(chosen.engine, chosen.tasks, chosen.group, chosen.concurrent, steps)
    report: dict[str, Any] = {"engine": chosen.engine, "threads": torch.get_num_threads()}
    if chosen.figure == "rollout":
        figure, about = rollout_figure(config, chosen.repeats)
        report |= {"rollout": asdict(figure), **about}
    else:
        report["overhead"] = overhead_figure(config)
    print(json.dumps(report, indent=None if chosen.json else 1))


if __name__ == "__main__":
    main()
