"""Play a suite's tasks once each and keep every trajectory; what was played before is not played again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rods import reward as rewards
from rods.config import Config
from rods.errors import RodsError
from rods.evaluation import folders
from rods.rollout.chat import Chat
from rods.rollout.engine import Engine
from rods.rollout.episode import Rollout, episodes
from rods.tasks.model import Task

Trajectory = dict[str, Any]
_READ = {
    "task_id": str,
    "type": str,
    "passed": bool,
    "progress": float,
    "finish": str,
}  # what a result is made of


class TrajectoryError(RodsError):
    """A file of trajectories that holds something else."""


def play(
    config: Config,
    engine: Engine,
    chat: Chat,
    tasks: Sequence[Task],
    folder: Path,
    on_progress: Callable[[int, int], None],
) -> list[Trajectory]:
    """One trajectory a task, in the order of `tasks`; each is kept as it ends.

    Args:
        config: under the suite's rules; `rollout` says how messages are sampled, `seed` fixes the draws.
        folder: holds the trajectories, those of an earlier start included.
        on_progress: told (tasks done, tasks in all), at the start and after each task.

    Raises:
        TrajectoryError: see `read`.
    """
    done = read(folder / folders.TRAJECTORIES)
    waiting = [task for task in tasks if task.id not in done]
    book = {task.id: task for task in waiting}
    with (folder / folders.TRAJECTORIES).open("a", encoding="utf-8") as kept:
        on_progress(len(done), len(tasks))
        for rollout in episodes(
            engine, chat, waiting, 1, config.rollout, config.simulation, config.reward, config.seed
        ):
            done[rollout.task_id] = describe(book[rollout.task_id], rollout, chat)
            kept.write(json.dumps(done[rollout.task_id], ensure_ascii=False) + "\n")
            kept.flush()
            on_progress(len(done), len(tasks))
    return [done[task.id] for task in tasks]


def describe(task: Task, rollout: Rollout, chat: Chat) -> Trajectory:
    """One trajectory as JSON: what it earned, why, its whole text, its tokens and which of them were sampled."""
    outcome = rollout.outcome
    return {
        "task_id": task.id,
        "type": task.type.value,
        "kind": task.kind,
        "passed": bool(rewards.binary(outcome)),
        "progress": rewards.progress(outcome),
        "turns": outcome.turns,
        "verdicts": [[verdict.state, verdict.response, verdict.judged] for verdict in outcome.verdicts],
        "codes": list(outcome.codes),
        "faults": list(outcome.faults),
        "finish": rollout.finish,
        "tokens": len(rollout.token_ids),
        "sampled_tokens": sum(rollout.mask),
        "text": chat.text(rollout.token_ids),
        "token_ids": list(rollout.token_ids),
        "mask": list(rollout.mask),
    }


def read(path: Path) -> dict[str, Trajectory]:
    """Trajectories by task; {} without a file. A last line that was cut short is removed from the file.

    Raises:
        TrajectoryError: another line is no trajectory.
    """
    if not path.is_file():
        return {}
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        with path.open("r+b") as stream:
            stream.truncate(len(whole))
    return {each["task_id"]: each for each in (_parse(line, path) for line in whole.splitlines())}


def _parse(line: bytes, path: Path) -> Trajectory:
    try:
        found = json.loads(line)
        if not isinstance(found, Mapping) or not all(
            isinstance(found.get(name), kind) for name, kind in _READ.items()
        ):
            raise ValueError("not a trajectory's object")
    except (ValueError, RecursionError) as error:
        raise TrajectoryError(
            f"{path}: expected one trajectory a line, found {line[:80]!r} ({error}); remove that line or the file"
        ) from error
    return dict(found)
