"""Record the MCP worlds of tasks: play each ground truth once against its real servers.

`python -m rods.simulation.recording TASKS.jsonl CASSETTES` starts the servers that the tasks name, so run it
on tasks that you wrote or read. Afterwards the tasks need no server: set `simulation.cassettes`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rods.config import RewardConfig, SimulationConfig
from rods.errors import RodsError
from rods.simulation.session import CALL_ERROR, Session
from rods.tasks.model import Call, Task


class RecordingError(RodsError):
    """A task whose ground truth does not solve it on the real servers."""


def record(task: Task, cassettes: Path) -> int:
    """Play the ground truth of `task` through a session and keep every answer in the folder `cassettes`.

    Returns:
        The number of calls made. What is recorded already is not asked of a server again.

    Raises:
        RecordingError: a call of the ground truth fails, or it does not earn the full reward; the message has
            the results of the turn.
        TruthUnknownError: a server was lost.
        McpServerError, CassetteError, ScenarioError: as `mcp_world.build`; for a variant too, which is not run.
    """
    simulation = SimulationConfig(mcp="record", cassettes=str(cassettes))
    session = Session(task, simulation, RewardConfig())
    for number, turn in enumerate(task.turns):
        seen = session.advance(_message(turn.calls)).observations if turn.calls else ()
        session.advance("Done.")
        outcome = session.outcome()
        if CALL_ERROR in outcome.codes or not outcome.verdicts[number].passed:
            session.abandon()
            raise RecordingError(
                f"task {task.id}: its ground truth does not solve turn {number + 1}; results: {list(seen)}"
            )
    return session.outcome().calls


def main(arguments: Sequence[str]) -> int:
    """Record every task of a file; 1 when one could not be recorded, the others are."""
    parser = argparse.ArgumentParser(prog="python -m rods.simulation.recording", description=__doc__)
    parser.add_argument("tasks", type=Path, help="JSON lines, each a task as Task.to_json writes it")
    parser.add_argument("cassettes", type=Path, help="folder for the recordings")
    options = parser.parse_args(arguments)
    failed = False
    for line in options.tasks.read_text(encoding="utf-8").splitlines():
        task = Task.from_json(json.loads(line))
        try:
            print(f"{task.id}: {record(task, options.cassettes)} calls recorded")
        except RodsError as error:
            failed = True
            print(f"{task.id}: not recorded: {error}", file=sys.stderr)
    return int(failed)


def _message(calls: Sequence[Call]) -> str:
    return "\n".join(f"<tool_call>\n{json.dumps(call.to_json())}\n</tool_call>" for call in calls)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
