"""The role of a run that only evaluates (`+experiment=evaluate_only`): it has the trainer's place, logs and heartbeat.

What is scored, and how, is what `rods evaluate POLICY KEY=VALUE…` would make of the same words; where it runs, and who
looks after it, is the launch's. Its end is journaled as that of a run without steps, so that every reader of runs
has it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from launchers import snapshot
from rods import tasks as task_sources
from rods.config import Config
from rods.curriculum.events import EvaluationDone, RunFinished, RunStarted
from rods.errors import RodsError
from rods.evaluation import folders, play
from rods.evaluation.launched import folder_of, own
from rods.evaluation.launched import mode as mode_of
from rods.exchange.attempt import Fence
from rods.exchange.rundir import RunDir
from rods.roles.evaluate import Audience, Order, Prepared, evaluate, prepare
from rods.roles.train import RunWatcher, quiet
from rods.tracking_artifacts import TrainTracker
from rods.training.examiner import told
from rods.training.heldout import Exam, graded
from rods.training.ledger import Ledger


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
        order, folder = order_of(run, config), folder_of(run.path, config.evaluation)
        exam = prepare(order, folders.pinned(order.policy, folder))
        mode = mode_of(exam.config)
        try:
            folder, _ = evaluate(exam, Audience(_progress(watcher), watcher.diary.write))
        except _StoppedError:
            watcher.diary.end(False)
            return os.EX_TEMPFAIL
        played = play.read(folder / folders.TRAJECTORIES)
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
    return Order(
        asked.policy,
        asked.suite,
        asked.split,
        folder_of(run.path, asked),
        own(config, run.read_manifest()["overrides"]),
    )


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
