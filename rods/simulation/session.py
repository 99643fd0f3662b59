"""What a rollout talks to: one dialogue over one world, advanced by one assistant message at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rods.config import RewardConfig, SimulationConfig
from rods.errors import RodsError
from rods.simulation import hints, protocols
from rods.simulation.calls import ParsedMessage, ParseFailure
from rods.simulation.checker import Judge, TurnVerdict
from rods.simulation.world import CallResult, World, open_world
from rods.tasks.model import Call, Task

__all__ = [
    "CALL_ERROR",
    "EXECUTED",
    "FAULTS",
    "PARSE_FAILURE",
    "Advance",
    "CallResult",
    "Outcome",
    "Session",
    "SessionError",
    "World",
    "open_world",
]

PARSE_FAILURE, CALL_ERROR, EXECUTED = -3, -2, -1
"""Codes of actions; a closed turn adds 0 (failed) or 1 (passed)."""

FAULTS = ("unreadable", "unknown_function", "bad_arguments", "simulator")
"""Kinds of failed calls: not read, refused for name or arguments, or answered with an error by the simulator."""


class SessionError(RodsError):
    """A session advanced after its end, or opened on a task without turns."""


@dataclass(frozen=True)
class Advance:
    """What the dialogue answers to an assistant message.

    Attributes:
        observations: one text per tool call that was attempted, in order.
        query: the next user message when the turn ended and another follows.
        restored: tools that come back with that message.
        finished: the dialogue is over.
    """

    observations: tuple[str, ...]
    query: str | None
    restored: tuple[dict[str, Any], ...]
    finished: bool


@dataclass(frozen=True)
class Outcome:
    """What happened in an episode; rewards are functions of it.

    Attributes:
        verdicts: of the closed turns, in order; a turn that was not reached has none.
        codes: −3 parse failure, −2 call error, −1 executed per call; 0 or 1 per closed turn; in order.
        turns: N, the number of ground-truth turns of the task, reached or not.
        calls: tool calls attempted, unreadable ones included.
        faults: why calls failed, in order, see `FAULTS`.
    """

    verdicts: tuple[TurnVerdict, ...]
    codes: tuple[int, ...]
    turns: int
    calls: int
    faults: tuple[str, ...] = ()


class Session:
    """One episode. A message with calls is one step; an answer ends the user's turn.

    After `simulation.step_limit` steps in a turn the next message with calls is not run: it ends the turn
    (EnvTuning's code); with `simulation.at_limit: force_quit` it is run and ends the episode (BFCL's runner).
    Withheld functions do not exist until their turn restores them.

    Args:
        task: what the episode is about.
        simulation: step limit and length of observations.
        reward: how turns with empty ground truth are judged.

    Raises:
        SessionError: the task has no turns.
        UnknownClassError, ScenarioError, BfclMissingError: as `World`.
    """

    def __init__(self, task: Task, simulation: SimulationConfig, reward: RewardConfig) -> None:
        if not task.turns:
            raise SessionError(f"task {task.id}: a dialogue needs at least one user turn")
        self._task = task
        self._simulation = simulation
        self._protocol = protocols.get(simulation.protocol)
        self._hint = hints.get(simulation.hints)
        # First the judge: while recording, its world asks the servers, and the policy's then finds the answers.
        self._judge = Judge(task, reward.empty_turn, simulation)
        self._world = open_world(task, withheld=task.withheld, simulation=simulation)
        self._world.restore(task.turns[0].restored)
        self._results: list[str] = []
        self._verdicts: list[TurnVerdict] = []
        self._codes: list[int] = []
        self._faults: list[str] = []
        self._finished = False
        self._begin_turn()
        self.query: str = task.turns[0].query
        self._docs = tuple(self._world.docs.values())

    @property
    def tools(self) -> list[dict[str, Any]]:
        """Documentation of the functions available from the start."""
        return [doc.to_tool() for doc in self._docs]

    @property
    def finished(self) -> bool:
        """The last turn is closed, or the episode was abandoned."""
        return self._finished

    @property
    def turn(self) -> int:
        """The open user turn, from 0: how many were closed."""
        return len(self._verdicts)

    def advance(self, message: str) -> Advance:
        """Take one assistant message (without the end token).

        Raises:
            SessionError: the session is finished.
        """
        if self._finished:
            raise SessionError(f"task {self._task.id}: the session is finished; open a new one")
        parsed = self._protocol.parse(message)
        if parsed.is_answer:
            return self._end_turn()
        if self._steps >= self._simulation.step_limit:
            return self._force_quit(parsed) if self._simulation.at_limit == "force_quit" else self._end_turn()
        self._steps += 1
        return Advance(self._run(parsed), None, (), False)

    def abandon(self) -> None:
        """There is no room for another message: the open turn and those after it stay without a verdict."""
        self._finish()

    def outcome(self) -> Outcome:
        """What happened so far."""
        calls = sum(code < 0 for code in self._codes)
        verdicts, codes, faults = tuple(self._verdicts), tuple(self._codes), tuple(self._faults)
        return Outcome(verdicts, codes, len(self._task.turns), calls, faults)

    def _finish(self) -> None:
        self._finished = True
        self._world.close()

    def _begin_turn(self) -> None:
        self._steps = 0
        self._called = False
        self._attempted = False

    def _run(self, parsed: ParsedMessage) -> tuple[str, ...]:
        self._attempted = True
        return tuple(self._run_one(item) for item in parsed.calls)

    def _run_one(self, item: Call | ParseFailure) -> str:
        if isinstance(item, ParseFailure):
            self._codes.append(PARSE_FAILURE)
            self._faults.append("unreadable")
            return (
                f"Error: this tool call could not be read: {item.reason}. Expected {self._protocol.expected}"
            )
        self._called = True
        result = self._world.execute(item)
        self._codes.append(CALL_ERROR if result.failed else EXECUTED)
        if result.failed:
            self._faults.append(result.refused or "simulator")
        self._results.append(result.text)
        doc = self._world.docs.get(item.name)
        return self._shorten(self._hint(doc.class_name if doc else "", item.name, result, self._world.docs))

    def _shorten(self, text: str) -> str:
        limit = self._simulation.max_result_chars
        return text if len(text) <= limit else f"{text[:limit]}… [cut: {len(text)} characters in all]"

    def _force_quit(self, parsed: ParsedMessage) -> Advance:
        observations = self._run(parsed)
        self._end_turn()
        self._finish()
        return Advance(observations, None, (), True)

    def _end_turn(self) -> Advance:
        # A turn to be answered without a call fails on any attempt; elsewhere a call counts once it was read.
        calls = self._task.turns[len(self._verdicts)].calls
        verdict = self._judge.close_turn(
            self._world, self._results, self._called if calls else self._attempted
        )
        self._verdicts.append(verdict)
        self._codes.append(int(verdict.passed))
        self._begin_turn()
        if len(self._verdicts) == len(self._task.turns):
            self._finish()
            return Advance((), None, (), True)
        turn = self._task.turns[len(self._verdicts)]
        restored = tuple(doc.to_tool() for doc in self._world.restore(turn.restored))
        return Advance((), turn.query, restored, False)
