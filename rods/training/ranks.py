"""Several ranks, one loop: rank 0 decides, the others repeat each call of the policy that it makes.

Only rank 0 has the journal, the queues and the checkpoints' markers. Between two of its calls the others wait, however
long that takes: the synthesis may keep the loop at its barrier for hours. A rank that is lost closes its connections,
and that ends the wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch.distributed as dist

from rods.config import Config
from rods.curriculum.events import EvaluationDone
from rods.tasks.model import Task
from rods.training import together
from rods.training.heldout import Exam
from rods.training.protocols import Result, Stepper

Value = TypeVar("Value")
_Call = tuple[str, tuple[Any, ...]]  # name of a Stepper's method, its arguments without the callbacks

_log = logging.getLogger(__name__)
_WAIT = timedelta(days=30)  # for the next call: longer than any barrier or evaluation


class Leading:
    """Rank 0's stepper (`rods.training.protocols.Stepper`), whose calls the other ranks make as well.

    Args:
        stepper: rank 0's own.
        group: over which the others are told.
    """

    def __init__(self, stepper: Stepper, group: dist.ProcessGroup) -> None:
        self.rank, self.engine_name = stepper.rank, stepper.engine_name
        self._stepper = stepper
        self._group = group
        self._in_call = False

    def start(self, step: int, tasks: Sequence[Task]) -> None:
        """See `Stepper`."""
        self._together(lambda: self._stepper.start(step, tasks), "start", step, tuple(tasks))

    def use(self, config: Config) -> None:
        """See `Stepper`."""
        self._together(lambda: self._stepper.use(config), "use", config)

    def run(
        self,
        tasks: Sequence[Task],
        step: int,
        on_progress: Callable[[int, int], None],
        on_phase: Callable[[str], None],
        upcoming: Sequence[Task] = (),
    ) -> Result:
        """See `Stepper`."""
        return self._together(
            lambda: self._stepper.run(tasks, step, on_progress, on_phase, upcoming),
            "run",
            tuple(tasks),
            step,
            tuple(upcoming),
        )

    def evaluate(
        self, tasks: Sequence[Task], exam: Exam, on_progress: Callable[[int, int], None]
    ) -> EvaluationDone:
        """See `Stepper`."""
        return self._together(
            lambda: self._stepper.evaluate(tasks, exam, on_progress), "evaluate", tuple(tasks), exam
        )

    def save(self, folder: Path) -> None:
        """See `Stepper`. What failed on any rank is raised, and may be tried again."""
        self._together(lambda: self._stepper.save(folder), "save", folder)

    def load(self, folder: Path) -> None:
        """See `Stepper`."""
        self._together(lambda: self._stepper.load(folder), "load", folder)

    def export(self, folder: Path) -> None:
        """See `Stepper`."""
        self._together(lambda: self._stepper.export(folder), "export", folder)

    def dismiss(self) -> None:
        """Tell the others to end. After a call that broke off they are in its middle, and cannot hear."""
        if not self._in_call:
            _tell(self._group, None)

    def _together(self, own: Callable[[], Value], name: str, *arguments: Any) -> Value:
        self._in_call = True
        _tell(self._group, (name, arguments))
        with together.led(False):
            result = own()
        self._in_call = False
        return result


@contextmanager
def leading(stepper: Stepper) -> Iterator[Stepper]:
    """Rank 0's stepper as the loop is to use it: `stepper` itself where there is no other rank. Collective.

    While it lasts what rank 0 does between the calls is its own affair: `rods.training.together` waits for nobody.
    At its end the others are told to end.
    """
    if together.single():
        yield stepper
        return
    leader = Leading(stepper, _control())
    try:
        with together.led(True):
            yield leader
    finally:
        leader.dismiss()


def follow(stepper: Stepper) -> None:
    """Another rank's whole work: make rank 0's calls until it says that this was all. Collective.

    Raises:
        Exception: what a call raised. Only a failed `save` is rank 0's to judge, which has heard of it.
        RuntimeError: rank 0 is gone.
    """
    group = _control()
    while (call := _told(group)) is not None:
        name, arguments = call
        try:
            _repeat(stepper, name, arguments)
        except Exception as error:
            if name != "save":
                raise
            _log.warning("rank %d could not save: %s", stepper.rank, error)


def _repeat(stepper: Stepper, name: str, arguments: tuple[Any, ...]) -> None:
    if name == "run":
        tasks, step, upcoming = arguments
        stepper.run(tasks, step, lambda done, total: None, lambda phase: None, upcoming)
    elif name == "evaluate":
        tasks, exam = arguments
        stepper.evaluate(tasks, exam, lambda done, total: None)
    else:
        getattr(stepper, name)(*arguments)


def _control() -> dist.ProcessGroup:
    """A group beside that of the tensors: its waits are long, and it needs no GPU."""
    group: dist.ProcessGroup = dist.new_group(backend="gloo", timeout=_WAIT)
    return group


def _tell(group: dist.ProcessGroup, call: _Call | None) -> None:
    dist.broadcast_object_list([call], src=0, group=group)


def _told(group: dist.ProcessGroup) -> _Call | None:
    holder: list[_Call | None] = [None]
    dist.broadcast_object_list(holder, src=0, group=group)
    return holder[0]
