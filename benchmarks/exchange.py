"""Our queue beside others in files: `python -m benchmarks.exchange --json` (needs the extra `bench`).

Every system puts and takes the same messages of 4 kB with 1, 4 and 16 processes, the systems in a different order
in each repeat. The other rounds kill -9 all of 4 processes half-way, while they put and again while they take;
then the system's own means recover what they had in hand.

`peer` is the fastest one that lost nothing in any round of this run, without a worker that failed, is on the disk
when it returns, and keeps its promises on a shared filesystem (no SQLite, no flock). All are in `systems`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.exchange_peers import SYSTEMS
from benchmarks.exchange_rounds import Round, Tally, play
from benchmarks.exchange_systems import Ours, OursSingle, System

PROCESSES = (1, 4, 16)
KILLED_PROCESSES = 4
NO_PEER = "none that is durable, loses nothing and is safe on a shared filesystem"


@dataclass(frozen=True)
class Rate:
    """Messages per second: median over the repeats, and the least and greatest."""

    median: float
    spread: tuple[float, float]

    @classmethod
    def of(cls, values: Sequence[float]) -> Rate:
        """Raises StatisticsError for none."""
        return cls(round(statistics.median(values), 1), (round(min(values), 1), round(max(values), 1)))


@dataclass(frozen=True)
class Figure:
    """One figure; `ratio` above 1 means that ours is better. `systems` has all of them, by name."""

    ours: float
    peer: float | None
    peer_name: str
    unit: str
    ratio: float | None
    systems: dict[str, Rate | int] = field(default_factory=dict)


@dataclass
class Results:
    """All rounds, by system, and by number of processes (0: the rounds with kills)."""

    rounds: dict[tuple[type[System], int], list[Round]] = field(default_factory=lambda: defaultdict(list))

    def tallies(self, kind: type[System], killed: bool) -> list[Tally]:
        """Of all rounds with, or without, kills."""
        return [
            one.tally
            for (system, processes), rounds in self.rounds.items()
            if system is kind and (processes == 0) is killed
            for one in rounds
        ]

    def total(self, kind: type[System], count: str, killed: bool) -> int:
        """The sum of one field of the tallies."""
        return sum(getattr(one, count) for one in self.tallies(kind, killed))

    def is_safe(self, kind: type[System]) -> bool:
        """Whether a ratio against it means something."""
        spoilt = sum(
            self.total(kind, count, killed)
            for count in ("lost", "torn", "failed")
            for killed in (False, True)
        )
        return kind.durable and kind.shared and spoilt == 0

    def rate(self, kind: type[System], what: str, processes: int) -> Rate:
        """`what`: put or getack."""
        return Rate.of([getattr(one, what) for one in self.rounds[kind, processes]])


def measure(messages: int, repeats: int, folder: Path) -> Results:
    """All rounds of all systems, alternating."""
    results = Results()
    for number, (repeat, processes, kind) in enumerate(_order(repeats)):
        keys = [f"seed-{repeat}-{one}" for one in range(messages)]
        home = folder / str(number)
        played = play(kind, home, keys, processes or KILLED_PROCESSES, kill=processes == 0)
        results.rounds[kind, processes].append(played)
        if played.tally.reason:
            print(f"{kind.name}, {_title(processes)}: {played.tally.reason}", file=sys.stderr)
    return results


def _title(processes: int) -> str:
    return f"{processes} processes" if processes else f"{KILLED_PROCESSES} processes killed"


def _order(repeats: int) -> Iterator[tuple[int, int, type[System]]]:
    for repeat in range(repeats):
        for step, processes in enumerate((*PROCESSES, 0)):
            turn = (3 * repeat + step) % len(SYSTEMS)
            for kind in SYSTEMS[turn:] + SYSTEMS[:turn]:
                yield repeat, processes, kind


def figures(results: Results) -> dict[str, Figure]:
    """All figures, by name."""
    found: dict[str, Figure] = {}
    for suffix, ours in (("", Ours), ("_single", OursSingle)):
        for what in ("put", "getack"):
            for processes in PROCESSES:
                found[f"{what}{suffix}_{processes}"] = _speed(results, ours, what, processes)
    for count in ("lost", "duplicated", "torn", "failed"):
        for suffix, killed in (("", False), ("_killed", True)):
            found[f"{count}{suffix}"] = _count(results, count, killed)
    return found


def _speed(results: Results, ours: type[System], what: str, processes: int) -> Figure:
    rates = {kind: results.rate(kind, what, processes) for kind in SYSTEMS}
    peers = [kind for kind in SYSTEMS if not issubclass(kind, Ours) and results.is_safe(kind)]
    named: dict[str, Rate | int] = {kind.name: rate for kind, rate in rates.items()}
    own = rates[ours].median
    if not peers:
        return Figure(own, None, NO_PEER, "messages/s", None, named)
    best = max(peers, key=lambda kind: rates[kind].median)
    peer = rates[best].median
    return Figure(own, peer, best.name, "messages/s", round(own / peer, 2), named)


def _count(results: Results, count: str, killed: bool) -> Figure:
    totals = {kind: results.total(kind, count, killed) for kind in SYSTEMS}
    named: dict[str, Rate | int] = {kind.name: total for kind, total in totals.items()}
    unit = "workers" if count == "failed" else "messages"
    return Figure(totals[Ours], None, "see systems", unit, None, named)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exchange", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object, figure by figure")
    parser.add_argument("--messages", type=int, default=128, help="in each round")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the queues are made, on the disk to measure")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=chosen.folder, prefix="exchange-") as folder:
        results = measure(chosen.messages, chosen.repeats, Path(folder))
    found = figures(results)
    if chosen.json:
        print(json.dumps({name: asdict(figure) for name, figure in found.items()}, indent=1))
        return
    for name, figure in found.items():
        print(
            f"{name:18} ours {figure.ours:9} {figure.unit:10} {figure.peer_name}: {figure.peer}, × {figure.ratio}"
        )
        for system, value in figure.systems.items():
            print(f"    {system:28} {value if isinstance(value, int) else f'{value.median} {value.spread}'}")


if __name__ == "__main__":
    main()
