"""Cost of the curriculum from 10³ to 10⁶ tasks: `python -m benchmarks.curriculum --json`.

The peer is the plain form: dicts that are copied when they change and scanned when asked, one text for snapshot
and digest. Every size has a process of its own; ours and the peer alternate in it. A figure's name ends with the
size. Per training step: statistics, selection, retirement, open_requests, digest,
snapshot_step (statistics with a snapshot under way; snapshot is the whole of it); per epoch: injection, epoch_end,
epoch_order; per restart: restore and resume (up to 10⁵), replay (3,200 observations). In resume, which continues a
history of one observation a task, ours is the snapshot and the peer our own replay from zero. Times are CPU time
of the calling thread, so that other load weighs little; snapshot_step is on the wall's clock, since it may wait.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks import curriculum_pools as pools
from benchmarks import curriculum_resume
from benchmarks.curriculum_peer import NAME, Plain
from benchmarks.curriculum_pools import EPOCH, STEP
from benchmarks.figure import Figure, compare
from rods.curriculum import boundary, pool, retirement
from rods.curriculum.events import EpochStarted, GroupObserved, parse_event
from rods.curriculum.state import CurriculumState, fold
from rods.training.tracker import BackgroundWriter, Snapshot

SIZES = (1_000, 10_000, 100_000, 1_000_000)
TAIL_STEPS = 100  # of the journal that a restart replays
ONCE_FROM = 100_000  # tasks from which on what takes seconds is measured once; above, no restore


class Sides:
    """The same pool on either side. Every method does one thing once."""

    def __init__(self, size: int, folder: Path) -> None:
        before = _resident_mib()
        self.ours: CurriculumState = pools.ours(size)
        gc.collect()
        between = _resident_mib()
        self.peer: Plain = pools.peer(size)
        gc.collect()
        self.memory = between - before, _resident_mib() - between
        self._size, self._step = size, STEP
        self._path = folder / "tracker.json"
        self._groups: list[GroupObserved] = []
        self._start = self.ours, self.peer
        self._closed = replace(self.ours, in_epoch=False)
        self._writer = BackgroundWriter(lambda snapshot: snapshot.write(self._path))
        self._stored_ours, self._stored_peer = b"", b""
        self._tail = [
            json.dumps(group.to_json())
            for step in range(STEP + 1, STEP + 1 + TAIL_STEPS)
            for group in pools.groups(size, step)
        ]

    def next_step(self) -> None:
        """Another step's groups, known to both sides."""
        self._step += 1
        self._groups = pools.groups(self._size, self._step)

    def observe(self) -> None:
        """Fold the step's groups, for what comes after them."""
        self.observe_ours()
        self.observe_peer()

    def observe_ours(self) -> None:
        self.ours = fold(self.ours, self._groups)

    def observe_peer(self) -> None:
        self.peer = self.peer.observe(self._groups)

    def select_ours(self) -> None:
        self.ours = fold(self.ours, boundary.select(self.ours, self._groups, self._step, EPOCH))

    def select_peer(self) -> None:
        self.peer = self.peer.select(self._groups, self._step, EPOCH)

    def retire_ours(self) -> None:
        fold(self.ours, retirement.after_step(self.ours, self._groups, self._step, EPOCH))

    def retire_peer(self) -> None:
        self.peer.retire(self._groups, self._step, EPOCH)

    def open_ours(self) -> None:
        assert pool.open_requests(self.ours)

    def open_peer(self) -> None:
        assert self.peer.open_requests()

    def inject_ours(self) -> None:
        injected = pool.inject(self._closed, self._step, EPOCH + 1)
        count = pool.active_count(self._closed) + len(injected)
        fold(self._closed, [*injected, EpochStarted(self._step, EPOCH + 1, count)])

    def inject_peer(self) -> None:
        self.peer.inject(EPOCH + 1)

    def end_ours(self) -> None:
        fold(self.ours, retirement.at_epoch_end(self.ours, self._step, EPOCH))

    def end_peer(self) -> None:
        self.peer.end_epoch()

    def order_ours(self) -> None:
        pool.epoch_order(self.ours, 1, EPOCH)

    def order_peer(self) -> None:
        self.peer.epoch_order(1, EPOCH)

    def digest_ours(self) -> None:
        self.ours.digest()

    def digest_peer(self) -> None:
        self.peer.digest()

    def snapshot_ours(self) -> None:
        self._snapshot().write(self._path)

    def snapshot_peer(self) -> None:
        self._stored_peer = self.peer.encode()
        with self._path.with_suffix(".peer").open("wb") as file:
            file.write(self._stored_peer)
            file.flush()
            os.fsync(file.fileno())

    def restore_ours(self) -> None:
        if not self._stored_ours:
            self._stored_ours = b"".join(self.ours.pieces())
        assert CurriculumState.from_bytes(self._stored_ours).digest() == self.ours.digest()

    def restore_peer(self) -> None:
        self.peer.decode(self._stored_peer)

    def replay_ours(self) -> None:
        fold(self._start[0], (parse_event(json.loads(line)) for line in self._tail))

    def replay_peer(self) -> None:
        self._start[1].replay(parse_event(json.loads(line)) for line in self._tail)

    def step_ours(self) -> None:
        self._writer.submit(self._snapshot())
        self.observe_ours()

    def step_peer(self) -> None:
        self.snapshot_peer()
        self.observe_peer()

    def close(self) -> None:
        """Wait for the snapshots."""
        self._writer.close()

    def _snapshot(self) -> Snapshot:
        return Snapshot(self.ours, self._step, {})


def measure(size: int) -> dict[str, Figure]:
    """All figures of one size, by name."""
    with tempfile.TemporaryDirectory() as folder:
        sides = Sides(size, Path(folder))
        often = _Alternation(sides, 15)
        some = _Alternation(sides, 5 if size <= ONCE_FROM else 1)
        seldom = _Alternation(sides, 5 if size < ONCE_FROM else 1)
        figures = {
            "statistics": often(sides.observe_ours, sides.observe_peer),
            "selection": often(sides.select_ours, sides.select_peer, sides.observe),
            "retirement": often(sides.retire_ours, sides.retire_peer, sides.observe),
            "open_requests": often(sides.open_ours, sides.open_peer),
            "injection": some(sides.inject_ours, sides.inject_peer),
            "epoch_end": some(sides.end_ours, sides.end_peer),
            "epoch_order": some(sides.order_ours, sides.order_peer),
            "replay": some(sides.replay_ours, sides.replay_peer),
            "digest": seldom(sides.digest_ours, sides.digest_peer),
            "snapshot": seldom(sides.snapshot_ours, sides.snapshot_peer),
            "snapshot_step": seldom(sides.step_ours, sides.step_peer, clock=time.perf_counter),
        }
        sides.close()
        if size <= ONCE_FROM:
            figures["restore"] = seldom(sides.restore_ours, sides.restore_peer)
            restart = curriculum_resume.Restart(size, Path(folder))
            resumed = seldom(restart.from_snapshot, restart.from_zero)
            figures["resume"] = replace(resumed, peer_name=curriculum_resume.PEER)
    figures["memory"] = compare([sides.memory[0]], [sides.memory[1]], NAME, "MiB", 3)
    return {f"{name}_{size}": figure for name, figure in figures.items()}


class _Alternation:
    def __init__(self, sides: Sides, repeats: int) -> None:
        self._sides, self._repeats = sides, repeats

    def __call__(
        self,
        ours: Callable[[], None],
        peer: Callable[[], None],
        prepare: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.thread_time,
    ) -> Figure:
        pairs = []
        for _ in range(self._repeats):
            self._sides.next_step()
            if prepare is not None:
                prepare()
            pairs.append((_milliseconds(ours, clock), _milliseconds(peer, clock)))
        return compare([a for a, _ in pairs], [b for _, b in pairs], NAME, "ms", 3)


def _milliseconds(work: Callable[[], None], clock: Callable[[], float]) -> float:
    start = clock()
    work()
    return (clock() - start) * 1e3


def _resident_mib() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _apart(size: int) -> dict[str, Figure]:
    """`measure` in a process of its own: memory that one size leaves behind does not count for the next."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        return executor.submit(measure, size).result()


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.curriculum", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object, figure by figure")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    chosen = parser.parse_args(arguments)
    figures = {name: figure for size in chosen.sizes for name, figure in _apart(size).items()}
    if chosen.json:
        print(json.dumps({name: asdict(figure) for name, figure in figures.items()}, indent=1))
        return
    for name, figure in figures.items():
        print(f"{name:24} ours {figure.ours:12} {figure.unit:4} peer {figure.peer:12}  × {figure.ratio}")


if __name__ == "__main__":
    main()
