"""Our session and checker beside BFCL's, on seeded trajectories: `python -m benchmarks.parity`.

Every trajectory is a ground truth with changes (`benchmarks.mutations`), played through a `Session` in the
official mode and given to the official checker. Both must name the same first turn that fails, for the same
reason. Where they differ, the official checker is asked again with one of its leaks repaired; what then
agrees is counted under the leak's name, everything else is a disagreement.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.mutations import KINDS, OFFICIAL_STEPS, Material, Turns, apply, material, to_call
from benchmarks.official import LEAKS, Failure, OfficialChecker, read_entries
from rods.config import RewardConfig, SimulationConfig, TasksConfig
from rods.simulation.session import Outcome, Session
from rods.tasks import load
from rods.tasks.model import Task

SIMULATION = SimulationConfig(
    step_limit=OFFICIAL_STEPS, at_limit="force_quit", types="official", max_result_chars=10**9
)
REWARD = RewardConfig(name="binary", empty_turn="official")


@dataclass(frozen=True)
class Trajectory:
    """What a policy does in one episode.

    Attributes:
        task: played without withheld functions, which the official checker does not know.
        kinds: the changes made to its ground truth.
        turns: per turn its steps, per step its calls as Python text.
    """

    task: Task
    kinds: tuple[str, ...]
    turns: tuple[tuple[tuple[str, ...], ...], ...]


@dataclass
class Report:
    """Counts of a run.

    Attributes:
        trajectories: compared.
        kinds: how often each change was made.
        verdicts: how often each reason of failure (or "passed") was named.
        leaks: disagreements that vanish when one leak of the official side is repaired, by its name.
        disagreements: all others, in full.
    """

    trajectories: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    leaks: Counter[str] = field(default_factory=Counter)
    disagreements: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "trajectories": self.trajectories,
            "kinds": dict(self.kinds),
            "verdicts": dict(self.verdicts),
            "official_leaks": dict(self.leaks),
            "disagreements": self.disagreements,
        }


def trajectories(count: int, seed: int) -> Iterator[Trajectory]:
    """`count` trajectories, the same for the same seed; the first 800 hold every task once per kind cycle."""
    loaded = load(TasksConfig(source="bfcl"))
    tasks = [replace(task, withheld=()) for task in (*loaded.train, *loaded.heldout)]
    entries = read_entries()
    texts: dict[str, list[str]] = defaultdict(list)
    for entry in entries.values():
        for text in (text for turn in entry["ground_truth"] for text in turn):
            texts[text.partition("(")[0]].append(text)
    kinds = list(KINDS)
    stuff = {classes: material(classes, texts) for classes in {task.classes for task in tasks}}
    for index in range(count):
        task = tasks[index % len(tasks)]
        # Tasks and kinds have coprime cycles only with the shift by the round.
        first = kinds[(index + index // len(tasks)) % len(kinds)]
        rng = random.Random(f"{seed}:{index}")
        more = rng.choices(kinds, k=rng.choice((0, 0, 0, 1, 2)))
        truth = [list(turn) for turn in entries[task.id]["ground_truth"]]
        yield _changed(task, truth, (first, *more), rng, stuff[task.classes])


def _changed(
    task: Task, turns: Turns, kinds: tuple[str, ...], rng: random.Random, stuff: Material
) -> Trajectory:
    for kind in kinds:
        apply(kind, turns, rng, stuff)
    at_once = "step_limit" not in kinds and rng.random() < 0.5
    steps = tuple(
        ((tuple(turn),) if turn else ()) if at_once else tuple((text,) for text in turn) for turn in turns
    )
    return Trajectory(task, kinds, steps)


def played(trajectory: Trajectory) -> tuple[Failure | None, int]:
    """Our verdict, and the number of turns that were reached."""
    session = Session(trajectory.task, SIMULATION, REWARD)
    for steps in trajectory.turns:
        for step in steps:
            if not session.finished:
                session.advance(_message(step, trajectory.task.classes))
        if not session.finished:
            session.advance("Done.")
    outcome = session.outcome()
    return _first_failure(outcome, trajectory), len(outcome.verdicts)


def compare(official: OfficialChecker, entry: dict[str, Any], trajectory: Trajectory, report: Report) -> None:
    """Play one trajectory on both sides and write down what came of it."""
    ours, reached = played(trajectory)
    # BFCL's runner runs the message after the limit, then ends the whole episode.
    turns = [steps[: OFFICIAL_STEPS + 1] for steps in trajectory.turns[:reached]]
    theirs = official.check(entry, turns)
    report.trajectories += 1
    report.kinds.update(trajectory.kinds)
    report.verdicts["passed" if ours is None else ours.kind] += 1
    if ours == theirs:
        return
    leak = next((name for name in LEAKS if official.check(entry, turns, name) == ours), None)
    if leak is not None:
        report.leaks[leak] += 1
        return
    report.disagreements.append(
        {
            "task": trajectory.task.id,
            "kinds": trajectory.kinds,
            "turns": trajectory.turns,
            "ours": ours and (ours.turn, ours.kind),
            "official": theirs and (theirs.turn, theirs.kind),
        }
    )


def run(count: int, seed: int) -> Report:
    """Compare `count` trajectories."""
    official, entries, report = OfficialChecker(), read_entries(), Report()
    for trajectory in trajectories(count, seed):
        compare(official, entries[trajectory.task.id], trajectory, report)
    official.forget()
    return report


def _message(step: Sequence[str], classes: tuple[str, ...]) -> str:
    calls = (to_call(text, classes).to_json() for text in step)
    return "\n".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in calls)


def _first_failure(outcome: Outcome, trajectory: Trajectory) -> Failure | None:
    if len(outcome.verdicts) < outcome.turns:
        return Failure(outcome.turns, "terminated")
    for index, verdict in enumerate(outcome.verdicts):
        if not verdict.passed:
            kind = "empty" if not trajectory.turns[index] else "response" if verdict.state else "state"
            return Failure(index, kind)
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 when a disagreement is left."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.parity", description=__doc__)
    parser.add_argument("--trajectories", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    report = run(chosen.trajectories, chosen.seed)
    print(json.dumps(report.to_json(), indent=1))
    return int(bool(report.disagreements))


if __name__ == "__main__":
    sys.exit(main())
