"""When the policy is evaluated in the course of a run, on which tasks, and where the figures go.

At the start, at the end of each stage and at the end of the run it is evaluated on the held-out tasks; in between,
every so many steps or epochs, on the validation tasks, so that what is chosen by those figures (a checkpoint, a
setting) was not chosen by a look at the held-out ones. A source without validation tasks has its held-out ones take
their part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rods.curriculum.events import EvaluationDone, EvaluationMode
from rods.tasks.model import Task
from rods.training.heldout import Exam

if TYPE_CHECKING:
    from rods.training.best import Best
    from rods.training.loop import Parts
    from rods.training.patience import Patience

HELDOUT, VALIDATION = "heldout", "validation"


class Examiner:
    """Evaluates the policy of a run and records what it earned.

    Args:
        parts: of the loop; `parts.evaluated` is the step after which the run was last evaluated, None for never.
        best: told of the evaluations by which the best policy is chosen.
        patience: of the loop.

    Attributes:
        evaluated: likewise, now.
    """

    def __init__(self, parts: Parts, best: Best, patience: Patience) -> None:
        self._parts = parts
        self._training = parts.config.training
        self._best = best
        self._patience = patience
        watches = self._training.evaluate_every_steps or self._training.evaluate_every_epochs
        self._guide = VALIDATION if watches and parts.tasks.validation else HELDOUT
        self.evaluated = parts.evaluated

    def after_step(self, step: int, epoch: int) -> None:
        """Evaluate if that is due after `step` and was not done. For the raises see `at_border`."""
        every = self._training.evaluate_every_steps
        if every and step % every == 0 and self.evaluated != step:
            self._evaluate([self._guide], step, epoch)

    def after_epoch(self, step: int, epoch: int) -> None:
        """Likewise at the end of `epoch`."""
        every = self._training.evaluate_every_epochs
        if every and epoch % every == 0 and self.evaluated != step:
            self._evaluate([self._guide], step, epoch)
        self.after_step(step, epoch)

    def at_border(self, step: int, epoch: int) -> None:
        """Evaluate at the start of the run, or at the end of a stage or of the run.

        Raises:
            AbandonedError: the run is to stop; nothing is recorded.
            OvertakenError: a newer attempt was started meanwhile.
        """
        self._evaluate(list(dict.fromkeys([self._guide, HELDOUT])), step, epoch)

    def _evaluate(self, splits: Sequence[str], step: int, epoch: int) -> None:
        """All of `splits`, or nothing is recorded."""
        modes = [EvaluationMode(mode) for mode in self._training.evaluation_modes]
        done = [
            self._timed(tasks, Exam(split, mode, step, epoch))
            for split in splits
            if (tasks := self._tasks(split))
            for mode in modes
        ]
        self._parts.fence.check()
        events = [event for event, _ in done]
        self._parts.ledger.record(events)
        self.evaluated = step
        self._best.consider(event for event in events if event.split == self._guide)
        for event, seconds in done:
            self._parts.watcher.log({**told(event), **seconds})

    def _timed(self, tasks: Sequence[Task], exam: Exam) -> tuple[EvaluationDone, dict[str, float]]:
        watcher, started, computed = self._parts.watcher, time.perf_counter(), time.process_time()
        watcher.beat("evaluation", step=exam.step, epoch=exam.epoch)
        self._patience.begin()
        event = self._parts.stepper.evaluate(tasks, exam, self._progress(exam))
        return event, {
            "seconds": time.perf_counter() - started,
            "cpu_seconds": time.process_time() - computed,
        }

    def _progress(self, exam: Exam) -> Callable[[int, int], None]:
        def tell(done: int, total: int) -> None:
            self._patience.ask()
            self._parts.watcher.beat("evaluation", step=exam.step, epoch=exam.epoch, done=done, total=total)

        return tell

    def _tasks(self, split: str) -> tuple[Task, ...]:
        tasks = self._parts.tasks
        return tasks.validation if split == VALIDATION else tasks.heldout


def told(event: EvaluationDone) -> dict[str, object]:
    """An evaluation's line in the metrics: without the single tasks' scores, which are in the journal."""
    return {key: value for key, value in event.to_json().items() if key not in ("name", "scores")} | {
        "event": "evaluation"
    }
