"""The training role: put the parts together, from a checkpoint where there is one, and run the loop."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from transformers.utils import logging as transformers_logging

from launchers import snapshot
from rods import tasks as task_sources
from rods.config import Config
from rods.exchange import stop
from rods.exchange.atomic import write_text
from rods.exchange.attempt import Fence
from rods.exchange.heartbeat import Heartbeat
from rods.exchange.metrics import MetricsWriter
from rods.exchange.rundir import RunDir
from rods.model_path import local
from rods.roles import nodes
from rods.roles.diary import Diary
from rods.roles.notice import Then
from rods.roles.ranks import NodeLostError
from rods.roles.watchdog import Watchdog
from rods.rollout import engine as engines
from rods.rollout.chat import Chat, load_tokenizer
from rods.rollout.episode import Rollout
from rods.simulation import protocols
from rods.tasks.taskset import TaskSet
from rods.tracking import Tracker
from rods.tracking_artifacts import TrainTracker
from rods.training import checkpoint
from rods.training.handover import Handover
from rods.training.learner import Learner
from rods.training.ledger import Ledger
from rods.training.loop import Loop, Parts
from rods.training.protocols import Stepper
from rods.training.ranks import leading
from rods.training.stages import planned_steps
from rods.training.step import Stepper as PolicyStepper

ROLE = "train"
_BEAT_EVERY_S = 1.0


StepperBuilder = Callable[[Config, TaskSet], "RoleStepper"]


class RoleStepper(Stepper, Protocol):
    """A stepper that a role owns: it can show transcripts, and it is closed at the end."""

    def text(self, token_ids: Sequence[int]) -> str:
        """A transcript as text."""

    def close(self) -> None:
        """Let go of what it holds."""


def main(run_dir: str, attempt: int) -> int:
    """Train until the end of the run (0), or until asked to stop with a checkpoint written (75, EX_TEMPFAIL).

    Raises:
        RodsError: anything that makes the run impossible; the message is complete.
    """
    run = RunDir.open(Path(run_dir))
    try:
        with nodes.together(run, attempt, snapshot.load_config(run)):
            return train(run, attempt, partial(build_stepper, run.attempt_dir(attempt)))
    except NodeLostError as error:
        # Another node can take its place, and what is left of this attempt ends.
        stop.request(run, attempt, str(error), Then.put_back)
        return os.EX_TEMPFAIL


def train(run: RunDir, attempt: int, build: StepperBuilder) -> int:
    """`main` with a policy of the caller's making."""
    config = snapshot.load_config(run)
    quiet(config)
    with ExitStack() as stack:
        tracker = stack.enter_context(TrainTracker(run, config))
        watcher = RunWatcher(run, attempt, config, tracker)
        stack.callback(watcher.close)
        watcher.beat("loading")
        tasks = task_sources.load(config.tasks)
        stepper = build(config, tasks)
        stack.callback(stepper.close)
        watcher.text = stepper.text
        leader = stack.enter_context(leading(stepper))
        parts = assemble(run, attempt, config, tasks, leader, watcher)
        stack.callback(parts.ledger.close)
        finished = Loop(parts).run()
        watcher.diary.end(finished)
    return 0 if finished else os.EX_TEMPFAIL


def build_stepper(logs: Path, config: Config, tasks: TaskSet) -> RoleStepper:
    """Learner and engine of the configured model; what the engine's servers write goes into `logs`."""
    model_dir = Path(local(config.model.path))
    learner = Learner(
        model_dir, config.model, config.training, planned_steps(config, tasks.train), config.seed
    )
    engine = engines.build(model_dir, config.model, config.rollout, config.seed, logs)
    chat = Chat(load_tokenizer(model_dir), config.model, protocols.get(config.simulation.protocol))
    return PolicyStepper(config, learner, engine, chat)


def assemble(
    run: RunDir, attempt: int, config: Config, tasks: TaskSet, stepper: Stepper, watcher: RunWatcher
) -> Parts:
    """Where the loop stands: at the newest complete checkpoint, or at the beginning.

    Raises:
        OvertakenError: a newer attempt was started meanwhile.
    """
    fence = Fence(run, attempt)
    fence.check()
    found = checkpoint.latest(run)
    evaluated: int | None = None
    if found is None:
        ledger, step, remaining, best, trained = Ledger.begin(run, attempt, config, tasks), 0, (), None, 0
    else:
        stepper.load(found)
        extra = checkpoint.read_extra(found)
        snapshots = checkpoint.snapshots(run, found)
        ledger = Ledger.resume(run, attempt, config, tasks, extra["ledger"], snapshots)
        step, remaining, best = extra["step"], tuple(extra["remaining"]), extra["best"]
        trained, evaluated = extra["trained"], extra["evaluated"]
    book = {task.id: task for task in tasks.train}
    handover = Handover(run, ledger, book, config)
    place = (step, remaining, best, trained, evaluated)
    return Parts(config, run, tasks, book, ledger, handover, stepper, watcher, fence, *place)


class RunWatcher:
    """Writes heartbeats, metrics and rollouts of the training role into the run directory.

    Attributes:
        text: decodes a transcript; set once the tokenizer is loaded.
        diary: tells people what the role is at.
    """

    text: Callable[[Sequence[int]], str]

    def __init__(self, run: RunDir, attempt: int, config: Config, tracker: Tracker) -> None:
        self._run = run
        self._attempt = attempt
        self._config = config
        self._tracker = tracker
        self.diary = Diary()
        self._heartbeat = Heartbeat(run.heartbeats, ROLE)
        self._metrics = MetricsWriter(run.metrics / f"{ROLE}.jsonl")
        self._watchdog = Watchdog(config.launch.watchdog_s)
        self._last_beat = 0.0
        self._last_phase = ""

    def beat(self, phase: str, **info: Any) -> None:
        """Write a heartbeat: at once for a new phase, else at most one a second."""
        self._watchdog.moved()
        now = time.monotonic()
        if phase != self._last_phase:
            self.diary.phase(phase, info.get("step"))
        if phase != self._last_phase or now - self._last_beat >= _BEAT_EVERY_S:
            self._heartbeat.beat(phase, attempt=self._attempt, **info)
            self._last_beat, self._last_phase = now, phase

    def log(self, record: dict[str, Any]) -> None:
        """Append to metrics/train.jsonl, say it and copy it to W&B."""
        self._metrics.write(record)
        self.diary.record(record)
        names = (record.get("event", ROLE), record.get("split"), record.get("mode"))
        self._tracker.log({"/".join(name for name in names if name): record}, record["step"])

    def keep(self, step: int, groups: Sequence[Sequence[Rollout]]) -> None:
        """Write the first `tracking.rollouts_per_group` rollouts of each group, one JSON object a line."""
        count = self._config.tracking.rollouts_per_group
        lines = [json.dumps(self._readable(rollout)) + "\n" for group in groups for rollout in group[:count]]
        write_text(self._run.rollouts / f"step_{step:06d}.jsonl", "".join(lines))

    def stop_requested(self) -> bool:
        """Whether this attempt was asked to stop."""
        return stop.is_requested(self._run, self._attempt)

    def close(self) -> None:
        """Close the metrics file."""
        self._watchdog.close()
        self._metrics.close()

    def _readable(self, rollout: Rollout) -> dict[str, Any]:
        verdicts = [verdict.passed for verdict in rollout.outcome.verdicts]
        return {
            "task_id": rollout.task_id,
            "index": rollout.index,
            "reward": rollout.reward,
            "turns_passed": verdicts,
            "codes": list(rollout.outcome.codes),
            "finish": rollout.finish,
            "text": self.text(rollout.token_ids),
            "token_ids": list(rollout.token_ids),
            "mask": list(rollout.mask),
        }


def quiet(config: Config) -> None:
    """Threads as configured; libraries speak up only about errors."""
    if config.training.threads is not None:
        torch.set_num_threads(config.training.threads)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
