"""Cost of our simulation beside BFCL's own code: `python -m benchmarks.simulation --json`.

Both sides run in one process, alternating, on the 800 ground truths, and are timed in CPU time, so that other
load on the machine weighs little. The official side gets fresh instances under a new name each pass, since
it would otherwise reuse those of the pass before, which are dirty.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import import_module
from itertools import count
from typing import Any

from benchmarks.figure import Figure, compare
from benchmarks.official import as_python, read_entries
from rods.config import TasksConfig
from rods.simulation.checker import Judge
from rods.simulation.truth import forget
from rods.simulation.world import open_world
from rods.tasks import load
from rods.tasks.model import Task

PEER = "bfcl-eval 2026.3.23"
MEMORY_PASSES = 10
MEMORY_RESOLUTION_MIB = 0.25
_ROOT = "bfcl_eval.eval_checker.multi_turn_eval"


class Sides:
    """The same work on either side. Every method makes one pass over the 800 entries."""

    def __init__(self) -> None:
        loaded = load(TasksConfig(source="bfcl"))
        self._tasks = (*loaded.train, *loaded.heldout)
        entries = read_entries()
        self._entries = [entries[task.id] for task in self._tasks]
        self._answers = [
            [[[as_python(call)] for call in turn.calls] for turn in task.turns] for task in self._tasks
        ]
        self._names = (f"pass{number}" for number in count())
        self._check = import_module(f"{_ROOT}.multi_turn_checker").multi_turn_checker
        self._utils = import_module(f"{_ROOT}.multi_turn_utils")
        self._own = frozenset(vars(self._utils))
        self.calls = sum(len(turn.calls) for task in self._tasks for turn in task.turns)
        self.entries = len(self._tasks)

    def check_ours(self) -> float:
        """CPU seconds to check every entry, the ground truths known, as for a group's second rollout."""
        start = time.process_time()
        for task in self._tasks:
            assert _passes(task), task.id
        return time.process_time() - start

    def check_ours_first(self) -> float:
        """Likewise, each ground truth run for the first time."""
        forget()
        return self.check_ours()

    def check_peer(self) -> float:
        """CPU seconds of the official checker on every entry."""
        name, start = next(self._names), time.process_time()
        for entry, answers in zip(self._entries, self._answers, strict=True):
            assert self._check(answers, entry["ground_truth"], entry, "", name)["valid"], entry["id"]
        return time.process_time() - start

    def call_ours(self) -> float:
        """CPU seconds in calls alone, the worlds being there."""
        spent = 0.0
        for task in self._tasks:
            world = open_world(task)
            calls = [call for turn in task.turns for call in turn.calls]
            start = time.process_time()
            for call in calls:
                world.execute(call)
            spent += time.process_time() - start
        return spent

    def call_peer(self) -> float:
        """Likewise on the official side, one call at a time as in an episode."""
        name, spent = next(self._names), 0.0
        for entry, answers in zip(self._entries, self._answers, strict=True):
            self._execute(entry, [], name)
            start = time.process_time()
            for turn in answers:
                for step in turn:
                    self._execute(entry, step, name)
            spent += time.process_time() - start
        return spent

    def world_ours(self) -> float:
        """CPU seconds to make the worlds of all entries."""
        start = time.process_time()
        for task in self._tasks:
            open_world(task)
        return time.process_time() - start

    def world_peer(self) -> float:
        """Likewise on the official side."""
        name, start = next(self._names), time.process_time()
        for entry in self._entries:
            self._execute(entry, [], name)
        return time.process_time() - start

    def forget_peer(self) -> None:
        """Drop the official instances, which their module would keep for ever."""
        for name in vars(self._utils).keys() - self._own:
            delattr(self._utils, name)
        gc.collect()

    def _execute(self, entry: dict[str, Any], calls: Sequence[str], name: str) -> None:
        self._utils.execute_multi_turn_func_call(
            list(calls),
            entry["initial_config"],
            entry["involved_classes"],
            name,
            entry["id"],
            "long_context" in entry["id"],
        )


def measure(repeats: int) -> dict[str, Figure]:
    """All figures, by name."""
    sides = Sides()
    rate, per_call, per_world = (
        lambda seconds: sides.entries / seconds,
        lambda seconds: seconds / sides.calls * 1e6,
        lambda seconds: seconds / sides.entries * 1e6,
    )
    alternate = _Alternation(sides, repeats)
    figures = {
        "check_entry": alternate(sides.check_ours, sides.check_peer, rate, "entries/s"),
        "check_entry_first": alternate(sides.check_ours_first, sides.check_peer, rate, "entries/s"),
        "call": alternate(sides.call_ours, sides.call_peer, per_call, "µs"),
        "world": alternate(sides.world_ours, sides.world_peer, per_world, "µs"),
    }
    figures["memory_growth"] = _memory(sides)
    return figures


class _Alternation:
    def __init__(self, sides: Sides, repeats: int) -> None:
        self._sides, self._repeats = sides, repeats

    def __call__(
        self,
        ours: Callable[[], float],
        peer: Callable[[], float],
        figure: Callable[[float], float],
        unit: str,
    ) -> Figure:
        ours(), peer()  # warm
        pairs = []
        for _ in range(self._repeats):
            pairs.append((figure(ours()), figure(peer())))
            self._sides.forget_peer()
        return compare([a for a, _ in pairs], [b for _, b in pairs], PEER, unit)


def _memory(sides: Sides) -> Figure:
    """Resident memory that ten passes of checks add to the first; one measurement a side."""
    ours = max(_growth(sides.check_ours), MEMORY_RESOLUTION_MIB)
    peer = _growth(sides.check_peer)
    sides.forget_peer()
    return compare([ours], [peer], PEER, "MiB")


def _growth(check: Callable[[], float]) -> float:
    check()
    gc.collect()
    before = _resident_mib()
    for _ in range(MEMORY_PASSES):
        check()
    gc.collect()
    return _resident_mib() - before


def _resident_mib() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _passes(task: Task) -> bool:
    world, judge = open_world(task), Judge(task, "official")
    results: list[str] = []
    passed = True
    for turn in task.turns:
        results += [world.execute(call).text for call in turn.calls]
        passed &= judge.close_turn(world, results, called=bool(turn.calls)).passed
    return passed


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object, figure by figure")
    parser.add_argument("--repeats", type=int, default=7)
    chosen = parser.parse_args(arguments)
    figures = measure(chosen.repeats)
    if chosen.json:
        print(json.dumps({name: asdict(figure) for name, figure in figures.items()}, indent=1))
        return
    for name, figure in figures.items():
        print(f"{name:20} ours {figure.ours:10} {figure.unit:10} {PEER} {figure.peer:10}  × {figure.ratio}")


if __name__ == "__main__":
    main()
