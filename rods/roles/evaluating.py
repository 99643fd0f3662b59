"""The role of a run that only evaluates (`+experiment=evaluate_only`): it has the trainer's place, logs and heartbeat.

What is scored, and how, is what `rods evaluate POLICY KEY=VALUE…` would make of the same words; where it runs, and who
looks after it, is the launch's. Its end is journaled as that of a run without steps, so that every reader of runs
has it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from launchers import snapshot
from rods import tasks as task_sources
from rods.config import Config, ConfigError
from rods.curriculum.events import EvaluationDone, EvaluationMode, RunFinished, RunStarted
from rods.errors import RodsError
from rods.evaluation import play
from rods.exchange.attempt import Fence
from rods.exchange.rundir import RunDir
from rods.roles.evaluate import Order, Prepared, evaluate, prepare
from rods.roles.train import RunWatcher, quiet
from rods.tracking_artifacts import TrainTracker
from rods.training.examiner import told
from rods.training.heldout import Exam, graded
from rods.training.ledger import Ledger

# Where and how the run is launched; every other setting is the policy's and the suite's.
_OF_THE_LAUNCH = ("experiment", "evaluation", "cluster", "launch", "tracking", "exchange")
_MODES = {0.0: EvaluationMode.GREEDY, 1.0: EvaluationMode.SAMPLED}


class _StoppedError(RodsError):
    """The run was asked to stop; what was played is kept."""


def main(run_dir: str, attempt: int) -> int:
    """Score the policy to the end (0), or until asked to stop with every finished episode kept (75, EX_TEMPFAIL).

    Raises:
        RodsError: it cannot be scored; the message is complete.
    """
    run = RunDir.open(Path(run_dir))
    config = snapshot.load_config(run)
    quiet(config)
    with ExitStack() as stack:
        tracker = stack.enter_context(TrainTracker(run, config))
        watcher = RunWatcher(run, attempt, config, tracker)
        stack.callback(watcher.close)
        watcher.beat("loading")
        exam = prepare(order_of(run, config))
        mode = _mode(exam.config)
        try:
            folder, _ = evaluate(exam, _progress(watcher))
        except _StoppedError:
            watcher.diary.end(False)
            return os.EX_TEMPFAIL
        played = play.read(folder / play.TRAJECTORIES)
        scores = {task: float(each["progress"]) for task, each in played.items()}
        event = graded(Exam(exam.order.split, mode, 0, 0), exam.tasks, scores)
        _journal(run, attempt, exam, event)
        watcher.log(told(event))
        watcher.diary.end(True)
    return 0


def order_of(run: RunDir, config: Config) -> Order:
    """What the run was asked to score: its configuration's `evaluation`, and the settings that were typed with it.

    Raises:
        ConfigError: a setting of something that the policy or the suite decides.
    """
    asked = config.evaluation
    out = run.path / "evaluations" / f"{asked.suite}-{asked.split}"
    return Order(asked.policy, asked.suite, asked.split, out, own(run.read_manifest()["overrides"]))


def own(typed: Sequence[str]) -> tuple[str, ...]:
    """Of what was typed at the launch, what is about the evaluation and not about where it runs."""
    return tuple(
        text for text in typed if text.lstrip("+").partition("=")[0].partition(".")[0] not in _OF_THE_LAUNCH
    )


def _mode(config: Config) -> EvaluationMode:
    temperature = config.rollout.temperature
    if temperature not in _MODES or config.rollout.top_p != 1.0:
        raise ConfigError(
            f"rollout.temperature = {temperature}, rollout.top_p = {config.rollout.top_p}: a run that evaluates is "
            "laid beside others, which decode greedily (0.0) or at temperature 1.0 with top_p 1.0; set one of them, or "
            "use `rods evaluate`"
        )
    return _MODES[temperature]


def _progress(watcher: RunWatcher) -> Callable[[int, int], None]:
    def tell(done: int, count: int) -> None:
        watcher.beat("evaluation", done=done, total=count)
        if watcher.stop_requested():
            raise _StoppedError("asked to stop")

    return tell


def _journal(run: RunDir, attempt: int, exam: Prepared, event: EvaluationDone) -> None:
    Fence(run, attempt).check()
    tasks = task_sources.load(exam.config.tasks)
    ledger = Ledger.begin(run, attempt, exam.config, tasks)
    try:
        ledger.record([RunStarted(0, 0, tasks.fingerprint, exam.config.seed), event, RunFinished(0, 0)])
    finally:
        ledger.close()
