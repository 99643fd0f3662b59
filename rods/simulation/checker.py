"""Whether a user turn was done: BFCL's state and response checks, turn by turn.

The official checker stops at the first failed turn. Here every turn gets its verdict, since the progress
reward counts them; the ground truth goes on in a world of its own, whatever the policy did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rods.errors import RodsError
from rods.simulation.world import World, open_world
from rods.tasks.model import Task


class JudgeError(RodsError):
    """A judge asked for a turn that its task does not have."""


@dataclass(frozen=True)
class TurnVerdict:
    """The verdict on one closed turn.

    Attributes:
        state: the policy's world equals the ground truth's (r^state).
        response: every ground-truth result of the turn is among the policy's results so far (r^exec).
        judged: False where the official runner judges nothing; such a turn counts as passed.
    """

    state: bool
    response: bool
    judged: bool

    @property
    def passed(self) -> bool:
        """Both checks hold."""
        return self.state and self.response


class Judge:
    """Holds the ground-truth world of one rollout and closes its turns in order.

    Args:
        task: with the ground-truth calls.
        empty_turn: for turns whose ground truth is not to call: "envtuning" (an answer passes, a call fails)
            or "official" (not judged).

    Raises:
        UnknownClassError, ScenarioError, BfclMissingError: as `World`.
    """

    def __init__(self, task: Task, empty_turn: str) -> None:
        if empty_turn not in ("envtuning", "official"):
            raise JudgeError(f"empty_turn = {empty_turn!r}: expected envtuning or official")
        self._task = task
        self._empty_turn = empty_turn
        self._world = open_world(task)
        self._next = 0

    def close_turn(self, world: World, results_so_far: Sequence[str], called: bool) -> TurnVerdict:
        """Run the next turn's ground truth and compare.

        Args:
            world: the policy's world after the turn.
            results_so_far: texts of all the policy's results, earlier turns included.
            called: the policy made a call in this turn.

        Raises:
            JudgeError: after the last turn.
        """
        if self._next >= len(self._task.turns):
            raise JudgeError(f"task {self._task.id}: all {len(self._task.turns)} turns are closed")
        calls = self._task.turns[self._next].calls
        self._next += 1
        if not calls:
            return self._empty(called)
        expected = [self._world.execute(call).text for call in calls]
        if not called:
            return TurnVerdict(state=False, response=False, judged=True)
        return TurnVerdict(
            state=same_state(world, self._world), response=includes(results_so_far, expected), judged=True
        )

    def _empty(self, called: bool) -> TurnVerdict:
        if self._empty_turn == "official":
            return TurnVerdict(state=True, response=True, judged=False)
        return TurnVerdict(state=not called, response=not called, judged=True)


def same_state(world: World, truth: World) -> bool:
    """Whether the public attributes of every simulator are equal, by `!=` as in BFCL; `_name` is private."""
    return all(_same(world.instances[name], instance) for name, instance in truth.instances.items())


def includes(results: Sequence[str], expected: Sequence[str]) -> bool:
    """Whether `expected` is a sub-multiset of `results`, in any order."""
    return Counter(expected) <= Counter(results)


def _same(instance: object, truth: object) -> bool:
    attributes = vars(instance)
    try:
        for name, value in vars(truth).items():
            if not name.startswith("_") and (name not in attributes or attributes[name] != value):
                return False
    except RecursionError:  # both hold a directory that was put inside itself: that equals nothing
        return False
    return True
