"""Several ranks, one loop: rank 0 decides, the others repeat each call of the policy that it makes.

Only rank 0 has the journal, the queues and the checkpoints' markers. Between two of its calls the others wait, however
long that takes: the synthesis may keep the loop at its barrier for hours. A rank that is lost closes its connections,
and that ends the wait. When rank 0 leaves episodes in their middle, the others hear of it while they play theirs.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch.distributed as dist

from rods.config import Config
from rods.curriculum.events import EvaluationDone
from rods.rollout.ranks import patient
from rods.tasks.model import Task
from rods.training import together
from rods.training.checkpoint import Exports, Saves
from rods.training.heldout import Exam
from rods.training.patience import AbandonedError
from rods.training.protocols import Result, Stepper

Value = TypeVar("Value")
_Call = tuple[str, tuple[Any, ...]]  # name of a Stepper's method, its arguments without the callbacks

_log = logging.getLogger(__name__)
_ASK_EVERY_S = 0.2


class Leaving:
    """Rank 0's word that the episodes under way are left, in the store by which the ranks have found each other."""

    _KEY = "rods/leave"

    def __init__(self) -> None:
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        self._store = dist.TCPStore(address, port, is_master=False)
        self._asked_at = float("-inf")

    def say(self) -> None:
        """The episodes of all ranks are left."""
        self._store.set(self._KEY, "")

    def ask(self, _done: int = 0, _total: int = 0) -> None:
        """Asked while another rank plays: go on, or leave.

        Raises:
            AbandonedError: leave.
        """
        now = time.monotonic()
        if now - self._asked_at < _ASK_EVERY_S:
            return
        self._asked_at = now
        if self._store.check([self._KEY]):
            raise AbandonedError("rank 0 has left its episodes")


class Leading:
    """Rank 0's stepper (`rods.training.protocols.Stepper`), whose calls the other ranks make as well.

    Args:
        stepper: rank 0's own.
        leaving: tells the others, in the middle of a call, to leave their episodes.
    """

    def __init__(self, stepper: Stepper, leaving: Leaving) -> None:
        self.rank, self.engine_name = stepper.rank, stepper.engine_name
        self._stepper = stepper
        self._leaving = leaving
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
        told = self._telling(on_progress)
        return self._together(
            lambda: self._stepper.run(tasks, step, told, on_phase, upcoming),
            "run",
            tuple(tasks),
            step,
            tuple(upcoming),
        )

    def evaluate(
        self, tasks: Sequence[Task], exam: Exam, on_progress: Callable[[int, int], None]
    ) -> EvaluationDone:
        """See `Stepper`."""
        told = self._telling(on_progress)
        return self._together(
            lambda: self._stepper.evaluate(tasks, exam, told), "evaluate", tuple(tasks), exam
        )

    def save(self, folder: Path) -> None:
        """See `Stepper`. What failed on any rank is raised, and may be tried again."""
        self._together(lambda: self._stepper.save(folder), "save", folder)

    def load(self, folder: Path) -> None:
        """See `Stepper`."""
        self._together(lambda: self._stepper.load(folder), "load", folder)

    def capture(self) -> AbstractContextManager[Saves]:
        """See `Stepper`."""
        return self._together(self._stepper.capture, "capture")

    def capture_policy(self) -> Exports:
        """See `Stepper`."""
        return self._together(self._stepper.capture_policy, "capture_policy")

    def dismiss(self) -> None:
        """Tell the others to end. After a call that broke off they are in its middle, and cannot hear."""
        if not self._in_call:
            _tell(None)

    def _telling(self, on_progress: Callable[[int, int], None]) -> Callable[[int, int], None]:
        """`on_progress`, of whose wish to leave the others hear."""

        def told(done: int, total: int) -> None:
            try:
                on_progress(done, total)
            except AbandonedError:
                self._leaving.say()
                raise

        return told

    def _together(self, own: Callable[[], Value], name: str, *arguments: Any) -> Value:
        self._in_call = True
        _tell((name, arguments))
        with together.led(False):
            try:
                result = own()
            except AbandonedError:
                self._in_call = False  # the others have left the call as well
                raise
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
    patient()  # all ranks make it together
    leader = Leading(stepper, Leaving())
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
    patient()  # all ranks make it together
    leaving = Leaving()
    while (call := _told()) is not None:
        name, arguments = call
        try:
            _repeat(stepper, name, arguments, leaving)
        except AbandonedError as error:
            _log.info("rank %d does what rank 0 says next: %s", stepper.rank, error)
        except Exception as error:
            if name != "save":
                raise
            _log.warning("rank %d could not save: %s", stepper.rank, error)


def _repeat(stepper: Stepper, name: str, arguments: tuple[Any, ...], leaving: Leaving) -> None:
    if name == "run":
        tasks, step, upcoming = arguments
        stepper.run(tasks, step, leaving.ask, lambda phase: None, upcoming)
    elif name == "evaluate":
        tasks, exam = arguments
        stepper.evaluate(tasks, exam, leaving.ask)
    else:
        getattr(stepper, name)(*arguments)


def _tell(call: _Call | None) -> None:
    dist.broadcast_object_list([call], src=0, group=patient())


def _told() -> _Call | None:
    holder: list[_Call | None] = [None]
    dist.broadcast_object_list(holder, src=0, group=patient())
    return holder[0]
