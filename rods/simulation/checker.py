"""Whether a user turn was done: BFCL's state and response checks, turn by turn.

The official checker stops at the first failed turn. Here every turn gets its verdict, since the progress
reward counts them; the ground truth goes its own way, whatever the policy did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rods.config import SimulationConfig
from rods.errors import RodsError
from rods.simulation.truth import State, truth_of
from rods.simulation.world import World
from rods.tasks.model import Task

_DEFAULTS = SimulationConfig()


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
    """Closes the turns of one rollout in order, each against the ground truth.

    Args:
        task: with the ground-truth calls.
        empty_turn: for turns whose ground truth is not to call: "envtuning" (an answer passes, a call fails)
            or "official" (not judged).
        simulation: the run's settings.

    Raises:
        UnknownClassError, ScenarioError, BfclMissingError: as `World`.
    """

    def __init__(self, task: Task, empty_turn: str, simulation: SimulationConfig = _DEFAULTS) -> None:
        if empty_turn not in ("envtuning", "official"):
            raise JudgeError(f"empty_turn = {empty_turn!r}: expected envtuning or official")
        self._task = task
        self._empty_turn = empty_turn
        self._truth = truth_of(task, simulation)
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
        truth = self._truth[self._next]
        self._next += 1
        if not truth.results:
            return self._empty(called)
        if not called:
            return TurnVerdict(state=False, response=False, judged=True)
        return TurnVerdict(
            state=same_state(world, truth.state),
            response=includes(results_so_far, truth.results),
            judged=True,
        )

    def _empty(self, called: bool) -> TurnVerdict:
        if self._empty_turn == "official":
            return TurnVerdict(state=True, response=True, judged=False)
        return TurnVerdict(state=not called, response=not called, judged=True)


def same_state(world: World, truth: State | None) -> bool:
    """Whether the public attributes of every simulator equal the ground truth's, by `!=` as in BFCL."""
    if truth is None:
        return False
    return all(_same(world.simulators[name].attributes(), attributes) for name, attributes in truth.items())


def includes(results: Sequence[str], expected: Sequence[str]) -> bool:
    """Whether `expected` is a sub-multiset of `results`, in any order."""
    left = list(results)
    try:
        for text in expected:
            left.remove(text)
    except ValueError:
        return False
    return True


def _same(attributes: Mapping[str, Any] | None, truth: Mapping[str, Any]) -> bool:
    if attributes is None:
        return False
    try:
        return all(name in attributes and attributes[name] == value for name, value in truth.items())
    except RecursionError:  # a directory that was put inside itself equals nothing
        return False
