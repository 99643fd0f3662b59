"""Checkpoints written while the next steps run: as whole, as well ordered, as loud in failure as those waited for."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import mounts
import pytest
from faults import Fault, injected, kill_at_every_point
from fsck_examples import CONFIG, TASKS, Trainer

from rods.config import TrainingConfig
from rods.curriculum.events import RunStarted
from rods.exchange import pressure
from rods.exchange.attempt import Fence, OvertakenError
from rods.exchange.pressure import DiskFullError, Pause
from rods.exchange.rundir import RunDir
from rods.training import checkpoint
from rods.training.ledger import Ledger
from rods.training.saving import Saver

WAIT_S = 30.0
BYTES = 200_000


class Weights:
    """A policy that is one number; before it is written it waits for its owner's leave."""

    rank = 0

    def __init__(self, value: int, begun: threading.Event, leave: threading.Event) -> None:
        self._value, self._begun, self._leave = value, begun, leave

    def save(self, folder: Path) -> None:
        self._begun.set()
        assert self._leave.wait(WAIT_S)
        (folder / "weights").write_bytes(bytes([self._value]) * BYTES)

    export = save


class Policy:
    """Stands where learner and engine stand.

    Attributes:
        value: the weight.
        captured, left: copies of the state that were made, and given back.
        begun: a file is about to be written.
        leave: it may.
    """

    rank = 0

    def __init__(self) -> None:
        self.value, self.captured, self.left = 1, 0, 0
        self.begun, self.leave = threading.Event(), threading.Event()
        self.leave.set()

    def save(self, folder: Path) -> None:
        self.capture_policy().save(folder)

    def capture(self) -> AbstractContextManager[Weights]:
        self.captured += 1
        return self._lent(self.capture_policy())

    def capture_policy(self) -> Weights:
        return Weights(self.value, self.begun, self.leave)

    @contextmanager
    def _lent(self, weights: Weights) -> Iterator[Weights]:
        try:
            yield weights
        finally:
            self.left += 1


class Side:
    """A trainer that has done step 3 and goes on."""

    def __init__(self, run: RunDir, in_background: bool = True) -> None:
        self.run, self.policy = run, Policy()
        run.attempt_dir(1).mkdir(parents=True, exist_ok=True)
        self.ledger = Ledger.begin(run, 1, CONFIG, TASKS)
        self.ledger.record([RunStarted(0, 0, TASKS.fingerprint, 0)])
        self.trainer = Trainer(run, self.ledger)
        self.trainer.epoch(1)
        training = TrainingConfig(async_checkpoint=in_background)
        self.saver = Saver(run, Fence(run, 1), self.policy, self.ledger, training)  # type: ignore[arg-type]

    def save(self, step: int) -> None:
        self.saver.checkpoint(step, {"remaining": []})

    def newest(self) -> tuple[int, int] | None:
        """Step and weight of the newest checkpoint."""
        folder = checkpoint.latest(self.run)
        if folder is None:
            return None
        return checkpoint.read_extra(folder)["step"], (folder / "weights").read_bytes()[0]

    def close(self) -> None:
        self.policy.leave.set()
        self.saver.close()
        self.ledger.close()


@pytest.fixture
def side(tmp_path: Path) -> Iterator[Side]:
    made = Side(RunDir.create(tmp_path, "saving", "0" * 64))
    yield made
    made.close()


def test_the_next_step_runs_while_the_state_of_this_one_is_written(side: Side) -> None:
    side.policy.leave.clear()
    side.save(3)
    records = side.ledger.records
    assert side.policy.begun.wait(WAIT_S)
    assert side.newest() is None
    side.policy.value = 2
    side.trainer.step(4, 1)
    assert not side.run.tracker.exists(), "what people read is never ahead of what a resume finds"
    side.policy.leave.set()
    side.saver.finish()
    assert side.newest() == (3, 1)
    folder = checkpoint.latest(side.run)
    assert folder is not None
    kept = checkpoint.read_extra(folder)["ledger"]["records"]
    assert kept == records < side.ledger.records
    assert (side.policy.captured, side.policy.left) == (1, 1)


def test_at_most_one_is_under_way(side: Side) -> None:
    side.policy.leave.clear()
    side.save(3)
    second = threading.Thread(target=side.save, args=(4,))
    second.start()
    second.join(0.3)
    assert second.is_alive()
    assert side.policy.captured == 1, "the first is written from the memory that the second would take"
    side.policy.leave.set()
    second.join(WAIT_S)
    side.saver.finish()
    assert side.newest() == (4, 1)


def test_waiting_for_it_gives_the_same_checkpoint(tmp_path: Path) -> None:
    files = []
    for in_background in (False, True):
        run = RunDir.create(tmp_path / str(in_background), "saving", "0" * 64)
        side = Side(run, in_background)
        side.save(3)
        side.policy.value = 2
        side.close()
        assert side.policy.captured == in_background
        folder = checkpoint.latest(run)
        assert folder is not None
        files.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert files[0] == files[1]


def test_a_failed_write_is_told_at_the_next_step_and_leaves_the_one_before(side: Side) -> None:
    side.save(3)
    side.saver.finish()
    with injected(Fault("raise", error="EACCES", operations=("open",), path="*/weights")):
        side.save(4)
        with pytest.raises(PermissionError):
            side.saver.finish()
    with pytest.raises(PermissionError):
        side.saver.check()
    assert side.newest() == (3, 1)
    assert [path.name for path in side.run.checkpoints.iterdir()] == ["step_000003-0001"]
    assert side.policy.left == 2
    with pytest.raises(PermissionError):
        side.save(5)
    assert side.policy.captured == 2


def test_a_full_disk_is_waited_for_while_steps_run(tmp_path: Path) -> None:
    with mounts.tmpfs(tmp_path / "small", "size=1500k") as disk:
        side = Side(RunDir.create(disk, "full", "0" * 64))
        side.save(3)
        side.saver.finish()
        ballast = mounts.fill(disk)
        paused = threading.Event()
        with pressure.using(Pause("train", lambda: False, lambda *_, **__: paused.set())):
            side.policy.value = 2
            side.save(4)
            assert paused.wait(WAIT_S)
            side.saver.check()
            assert side.newest() == (3, 1)
            ballast.unlink()
            side.saver.finish()
        assert side.newest() == (4, 2)
        side.close()


def test_a_stop_ends_the_wait_for_space(tmp_path: Path) -> None:
    with mounts.tmpfs(tmp_path / "small", "size=1500k") as disk:
        side = Side(RunDir.create(disk, "full", "0" * 64))
        ballast = mounts.fill(disk)
        stopped = threading.Event()
        with pressure.using(Pause("train", stopped.is_set, lambda *_, **__: stopped.set())):
            side.save(3)
            with pytest.raises(DiskFullError):
                side.saver.finish()
        assert side.newest() is None
        ballast.unlink()
        side.close()


def test_no_checkpoint_knows_of_a_policy_that_was_not_written(side: Side) -> None:
    with injected(Fault("raise", error="EACCES", path="*/.policy_best.tmp*", times=None)):
        side.saver.policy(side.run.path / "policy_best")
        side.save(3)
        with pytest.raises(PermissionError):
            side.saver.finish()
        side.saver.close()
    assert side.newest() is None
    assert side.policy.left == 1


def test_a_policy_is_that_of_its_moment_and_stands_before_its_checkpoint(side: Side) -> None:
    side.policy.leave.clear()
    seen: list[object] = []
    side.saver.policy(side.run.path / "policy_best", lambda: seen.append(side.newest()))
    side.save(3)
    side.policy.value = 2
    side.policy.leave.set()
    side.saver.finish()
    assert seen == [None]
    assert (side.run.path / "policy_best" / "weights").read_bytes()[0] == 1


def test_an_overtaken_attempt_hears_of_it(side: Side) -> None:
    side.policy.leave.clear()
    side.save(3)
    side.run.attempt_dir(2).mkdir()
    side.policy.leave.set()
    with pytest.raises(OvertakenError):
        side.saver.finish()
    assert not side.run.tracker.exists()


def test_a_death_in_the_middle_leaves_the_one_before(tmp_path: Path) -> None:
    def prepare() -> Callable[[], object]:
        shutil.rmtree(tmp_path / "runs", ignore_errors=True)
        run = RunDir.create(tmp_path / "runs", "dies", "0" * 64)

        def action() -> None:
            side = Side(run)
            side.save(3)
            side.saver.finish()
            (run.path / "first").touch()
            side.policy.value = 2
            side.save(4)
            side.trainer.step(4, 1)
            side.close()

        return action

    found = []

    def check() -> None:
        (path,) = (tmp_path / "runs").iterdir()
        folder = checkpoint.latest(RunDir(path))
        assert folder is not None or not (path / "first").exists()
        if folder is not None:
            step, weight = checkpoint.read_extra(folder)["step"], (folder / "weights").read_bytes()[0]
            assert (step, weight) in ((3, 1), (4, 2))
            found.append(step)

    deaths = kill_at_every_point(prepare, check, path="*/checkpoints/*", moments=["before"])
    assert deaths > 10
    assert {3, 4} == set(found)
