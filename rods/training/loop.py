"""The training job's loop: epochs over the active pool, with the curriculum deciding between steps.

Every decision is an event that is journaled before it takes effect. What the loop itself decides is only the
order of things: inject, train, observe, emit seeds, retire, take variants in, checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from rods.config import Config
from rods.config.stages import planned_epochs, steps_vary
from rods.curriculum import boundary, pool, retirement
from rods.curriculum.events import (
    EpochFinished,
    EpochStarted,
    GroupObserved,
    RunFinished,
    RunStarted,
)
from rods.curriculum.strategy import injection, review, sampling
from rods.curriculum.summary import figures
from rods.exchange.attempt import Fence
from rods.exchange.rundir import RunDir
from rods.tasks.model import Task
from rods.tasks.taskset import TaskSet
from rods.training.best import Best
from rods.training.examiner import Examiner
from rods.training.handover import Handover
from rods.training.ledger import Ledger
from rods.training.patience import AbandonedError, Patience
from rods.training.protocols import Result, Stepper, Watcher
from rods.training.saving import Saver
from rods.training.stages import Course


@dataclass(frozen=True)
class Parts:
    """What a loop is made of. `step`, `remaining`, `best`, `trained` (groups) and `evaluated` (at that step) say
    where it stands, from a checkpoint or a fresh start.

    `fence` stands before everything that the attempts of a run share.
    """

    config: Config
    run: RunDir
    tasks: TaskSet
    book: dict[str, Task]
    ledger: Ledger
    handover: Handover
    stepper: Stepper
    watcher: Watcher
    fence: Fence
    step: int
    remaining: tuple[str, ...]
    best: float | None
    trained: int
    evaluated: int | None


class Loop:
    """One attempt of the training job."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._config = parts.config
        self._ledger = parts.ledger
        self._course = Course(parts.config, parts.ledger, parts.trained)
        self._handover = parts.handover
        self._watcher = parts.watcher
        self._stepper = parts.stepper
        self._patience = Patience(parts.watcher.stop_requested, parts.config.launch.stop_deadline_s)
        self._fence = parts.fence
        self._saver = Saver(parts.run, parts.fence, parts.stepper, parts.ledger, parts.config.training)
        self._best = Best(parts.run, self._saver, parts.config.training.keep_best, parts.best)
        self._examiner = Examiner(parts, self._best, self._patience)
        self._step = parts.step
        self._remaining = list(parts.remaining)

    def run(self) -> bool:
        """Train to the end, or until asked to stop.

        Returns:
            True when the run is finished, False when it was stopped with a checkpoint written.

        Raises:
            OvertakenError: a newer attempt of the run was started meanwhile.
        """
        if self._ledger.state.finished:
            return True
        try:
            finished = self._run_or_pause()
            self._saver.finish()
        finally:
            self._saver.close()
        return finished

    def _run_or_pause(self) -> bool:
        try:
            return self._run()
        except AbandonedError:
            return self._pause()

    def _run(self) -> bool:
        self._start()
        while self._ledger.state.in_epoch or self._course.proceed(self._step):
            self._stepper.use(self._course.config)
            if not self._ledger.state.in_epoch:
                self._begin_epoch()
            while self._remaining:
                self._saver.check()
                if self._watcher.stop_requested():
                    return self._pause()
                self._train_step()
            if not self._end_epoch():
                return self._pause()
        self._finish()
        return True

    def _start(self) -> None:
        tasks = self._parts.tasks
        self._watcher.beat("starting", step=self._step)
        self._stepper.start(self._step, tasks.train)
        self._fence.check()
        state = self._ledger.state
        self._ledger.record([RunStarted(self._step, state.epoch, tasks.fingerprint, self._config.seed)])
        self._handover.reopen()
        if self._step and state.in_epoch and self._config.buffer.barrier:
            self._take_variants()  # the attempt before may have been stopped while it waited for them
        if self._step == 0 and not state.in_epoch:
            self._examiner.at_border(self._step, state.epoch)

    def _begin_epoch(self) -> None:
        epoch = self._ledger.state.epoch + 1
        self._ledger.record(review.due(self._ledger.state, self._step, epoch))
        self._ledger.record(pool.inject(self._ledger.state, self._step, epoch))
        self._ledger.record([EpochStarted(self._step, epoch, pool.active_count(self._ledger.state))])
        size = self._config.training.tasks_per_step
        order = sampling.order(self._ledger.state, self._config.seed, epoch, size)
        self._remaining = self._course.affordable(order)

    def _train_step(self) -> None:
        self._examiner.after_step(self._step, self._ledger.state.epoch)
        started, computed = time.perf_counter(), time.process_time()
        size = self._config.training.tasks_per_step
        tasks = [self._parts.book[task_id] for task_id in self._remaining[:size]]
        step, epoch = self._step + 1, self._ledger.state.epoch
        self._watcher.beat("rollout", step=step, epoch=epoch)
        self._patience.begin()
        upcoming = [self._parts.book[task_id] for task_id in self._remaining[size : 2 * size]]
        result = self._stepper.run(tasks, step, self._on_rollout, self._on_phase, upcoming)
        self._fence.check()
        self._step, self._remaining = step, self._remaining[size:]
        self._course.trained += len(tasks)
        emitted, retired = self._decide(tasks, result)
        self._take_variants()
        self._ledger.sync()
        self._watcher.keep(step, result.groups)
        spent = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - computed}
        self._watcher.log({**self._metrics(result, emitted, retired), **spent})
        every = self._config.training.checkpoint_every_steps
        if every and step % every == 0 and self._remaining:
            self._save()

    def _take_variants(self) -> None:
        """Between two steps: what synthesis has answered, and what of it may be trained on at once."""
        if not self._config.buffer.barrier:
            self._fence.check()
            self._handover.receive()
        elif self._config.buffer.injection == "stream" and not self._await_answers():
            return
        state = self._ledger.state
        entering = injection.between_steps(state, self._step, state.epoch)
        self._ledger.record(entering)
        # The rollouts of the next step may have begun.
        begun = self._config.training.tasks_per_step if self._config.rollout.one_step_off else 0
        self._remaining[begun:begun] = [event.task_id for event in entering]
        # Who left or joined the epoch has moved its steps' borders.
        spread = sampling.spread(self._remaining, self._config.training.tasks_per_step)
        self._remaining = self._course.affordable(spread)

    def _decide(self, tasks: Sequence[Task], result: Result) -> tuple[int, int]:
        """Journal what the step showed and what follows from it; returns how many seeds and retirements."""
        step, epoch = self._step, self._ledger.state.epoch
        observed = [
            GroupObserved(step, epoch, task.id, tuple(float(rollout.reward) for rollout in group))
            for task, group in zip(tasks, result.groups, strict=True)
        ]
        self._ledger.record(observed)
        state = self._ledger.state
        synthesise = self._course.config.synthesis.enabled and self._config.buffer.capacity > 0
        seeds = boundary.select(state, observed, step, epoch) if synthesise else []
        retired = retirement.after_step(state, observed, step, epoch)
        self._handover.emit(seeds)
        self._ledger.record(retired)
        gone = {event.task_id for event in retired}
        # Prioritised replay visits a task more than once.
        self._remaining = [task_id for task_id in self._remaining if task_id not in gone]
        return len(seeds), len(retired)

    def _end_epoch(self) -> bool:
        """Close the epoch; False when asked to stop while waiting at the barrier."""
        epoch = self._ledger.state.epoch
        if self._config.buffer.barrier and not self._await_answers():
            return False
        self._fence.check()
        self._ledger.record(retirement.at_epoch_end(self._ledger.state, self._step, epoch))
        self._handover.write_expanded(epoch)
        if not self._course.over:
            examine = self._examiner.at_border if self._course.stage_over else self._examiner.after_epoch
            examine(self._step, epoch)
        self._ledger.record([EpochFinished(self._step, epoch)])
        told = {**self._course.figures, **figures(self._ledger.state)}
        self._watcher.log({"event": "epoch", "step": self._step, "epoch": epoch, **told})
        self._save()
        return True

    def _await_answers(self) -> bool:
        """The barrier: block until no seed request is open; False when asked to stop meanwhile."""
        step, epoch = self._step, self._ledger.state.epoch
        self._handover.wait(
            self._config.buffer.barrier_timeout_s,
            self._waits_in_vain,
            lambda missing: self._watcher.beat("barrier", step=step, epoch=epoch, missing=missing),
        )
        return not self._watcher.stop_requested()

    def _waits_in_vain(self) -> bool:
        """Asked at the barrier: whether to stop waiting. An overtaken attempt must not take the answers."""
        self._fence.check()
        return self._watcher.stop_requested()

    def _finish(self) -> None:
        self._examiner.at_border(self._step, self._ledger.state.epoch)
        self._fence.check()
        self._ledger.record([RunFinished(self._step, self._ledger.state.epoch)])
        self._saver.policy(self._parts.run.path / "policy")
        self._save()

    def _pause(self) -> bool:
        self._save()
        return False

    def _save(self) -> None:
        self._watcher.beat("checkpoint", step=self._step, epoch=self._ledger.state.epoch)
        extra = {
            "remaining": self._remaining.copy(),
            "best": self._best.mean,
            "trained": self._course.trained,
            "evaluated": self._examiner.evaluated,
        }
        self._saver.checkpoint(self._step, extra)

    def _on_rollout(self, done: int, total: int) -> None:
        self._patience.ask()
        epoch = self._ledger.state.epoch
        self._watcher.beat("rollout", step=self._step + 1, epoch=epoch, done=done, total=total)

    def _on_phase(self, phase: str) -> None:
        self._patience.end()  # the weights move: the step must come to its end
        self._watcher.beat(phase, step=self._step + 1, epoch=self._ledger.state.epoch)

    def _metrics(self, result: Result, emitted: int, retired: int) -> dict[str, Any]:
        return {
            "step": self._step,
            "epoch": self._ledger.state.epoch,
            "time": time.time(),
            "engine": self._stepper.engine_name,
            "steps_total": self._steps_total(),
            "steps_estimated": steps_vary(self._config),
            "epochs_total": planned_epochs(self._config),
            **self._course.figures,
            **result.metrics,
            **figures(self._ledger.state),
            "seeds_emitted_now": emitted,
            "retired_now": retired,
        }

    def _steps_total(self) -> int:
        """Later epochs are taken to be as long as the pool is now."""
        size = self._config.training.tasks_per_step
        per_epoch = ceil(pool.active_count(self._ledger.state) / size)
        left = ceil(len(self._remaining) / size) + self._course.epochs_left * per_epoch
        return self._step + int(min(left, self._course.steps_paid))
