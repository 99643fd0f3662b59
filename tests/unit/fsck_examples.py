"""A real small run for the tests of `rods fsck`: two attempts, answers by the scripted backend, checkpoints."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from launchers import snapshot
from rods import tasks as task_sources
from rods.config import BoundaryConfig, BufferConfig, Config, SynthesisConfig, TasksConfig
from rods.curriculum import boundary, pool
from rods.curriculum.events import EpochFinished, EpochStarted, GroupObserved, RunStarted
from rods.exchange import stop
from rods.exchange.rundir import RunDir
from rods.fsck.report import Report, Severity
from rods.synthesis import daemon as daemons
from rods.synthesis.daemon import Daemon
from rods.synthesis.pipeline import Pipeline
from rods.synthesis.scripted import build
from rods.training import checkpoint
from rods.training.checkpoint import Position
from rods.training.handover import Handover
from rods.training.ledger import Ledger

CONFIG = Config(
    tasks=TasksConfig(source="scripted", train_count=4, heldout_count=0),
    boundary=BoundaryConfig(max_seeds=4, quotas={"base": 4}, exclusion_steps=2),
    buffer=BufferConfig(capacity=8, injection_fraction=1.0, barrier=True),
)
TASKS = task_sources.load(CONFIG.tasks)


class Weights:
    """A learner of which only the file matters."""

    rank = 0

    def save(self, folder: Path) -> None:
        (folder / "weights.pt").write_bytes(bytes(range(256)) * 8)


class Trainer:
    """The real ledger and handover, without a policy."""

    def __init__(self, run: RunDir, ledger: Ledger) -> None:
        self.run, self.ledger = run, ledger
        self.book = {task.id: task for task in TASKS.train}
        self.handover = Handover(run, ledger, self.book, CONFIG)

    def step(self, step: int, epoch: int) -> None:
        observed = [GroupObserved(step, epoch, task.id, (0.0, 1.0)) for task in TASKS.train]
        self.ledger.record(observed)
        self.handover.emit(boundary.select(self.ledger.state, observed, step, epoch))

    def epoch(self, epoch: int) -> None:
        step = 3 * epoch
        self.ledger.record(pool.inject(self.ledger.state, step - 1, epoch))
        active = len(pool.active(self.ledger.state))
        self.ledger.record([EpochStarted(step - 1, epoch, active)])
        self.step(step, epoch)

    def close_epoch(self, epoch: int) -> None:
        self.handover.wait(30.0, lambda: False, lambda missing: None)
        self.handover.write_expanded(epoch)
        self.ledger.record([EpochFinished(3 * epoch, epoch)])

    def save(self, attempt: int, step: int) -> Path:
        extra = {"step": step, "remaining": [], "ledger": self.ledger.snapshot().summary()}
        position = Position(step, attempt, self.ledger.records)
        folder = checkpoint.save(self.run, position, Weights(), extra, 3, self.ledger.snapshot().save)
        self.ledger.write_tracker(self.ledger.snapshot())
        return folder


def synthesise(run: RunDir, attempt: int) -> None:
    """The real daemon with the scripted backend, until every seed is answered."""
    backend = build(SynthesisConfig())
    made = Daemon(run, attempt, Pipeline(SynthesisConfig(), backend, 0), backend, 4)

    async def serve() -> None:
        serving = asyncio.create_task(made.serve())
        while (counts := run.queue("seeds").counts())["ready"] or counts["claimed"]:
            assert not serving.done()
            await asyncio.sleep(0.01)
        stop.request(run, attempt, "test")
        await serving

    asyncio.run(asyncio.wait_for(serve(), 60))
    stop.clear_stale(run, attempt + 1)


def make_run(parent: Path) -> RunDir:
    """Two attempts: epoch 1 is finished and kept, the second attempt is in the middle of epoch 2."""
    run = RunDir.create(parent, "fsck", "0" * 64)
    snapshot.freeze_config(run, CONFIG)
    first = Trainer(run, Ledger.begin(run, run.next_attempt(), CONFIG, TASKS))
    first.ledger.record([RunStarted(0, 0, TASKS.fingerprint, 0)])
    first.epoch(1)
    synthesise(run, 1)
    first.close_epoch(1)
    kept = first.ledger.snapshot().summary()
    first.save(1, 3)
    first.ledger.close()
    second = Trainer(run, Ledger.resume(run, run.next_attempt(), CONFIG, TASKS, kept))
    second.ledger.record([RunStarted(3, 1, TASKS.fingerprint, 0)])
    second.handover.reopen()
    second.epoch(2)
    synthesise(run, 2)
    second.handover.receive()
    second.save(2, 6)
    second.step(9, 2)
    second.ledger.close()
    shutil.rmtree(run.heartbeats)  # the daemon's process was this one, which lives on
    return run


def make_quickly(parent: Path) -> RunDir:
    """`make_run`, with a daemon that looks more often."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(daemons, "_POLL_S", 0.01)
        return make_run(parent)


@contextmanager
def copied(run: RunDir, to: Path) -> Iterator[RunDir]:
    """A copy, hard links within it kept: a queue's keys are links to its messages."""
    target = to / run.name
    shutil.copytree(run.path, target, symlinks=True)
    for keys in target.glob("queues/*/keys"):
        _link_again(keys, run.path / keys.relative_to(target))
    try:
        yield RunDir(target)
    finally:
        shutil.rmtree(target)


def _link_again(keys: Path, original: Path) -> None:
    inodes = {path.stat().st_ino: path for path in original.parent.rglob("*") if path.parent != original}
    for entry in original.iterdir():
        twin = inodes.get(entry.stat().st_ino)
        if twin is not None:
            (keys / entry.name).unlink()
            os.link(keys.parent / twin.relative_to(original.parent), keys / entry.name)


def codes(report: Report, *, least: Severity = Severity.WARNING) -> list[str]:
    counted = (Severity.ERROR,) if least is Severity.ERROR else (Severity.ERROR, Severity.WARNING)
    return sorted({finding.code for finding in report.findings if finding.severity in counted})


def bytes_of(run: RunDir) -> dict[str, bytes]:
    files = [path for path in run.path.rglob("*") if path.is_file() and not path.is_symlink()]
    return {path.relative_to(run.path).as_posix(): path.read_bytes() for path in files}


def flip(path: Path, position: int = -1) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x20
    path.write_bytes(data)


def newest(run: RunDir, pattern: str) -> Path:
    return sorted(run.path.glob(pattern))[-1]
