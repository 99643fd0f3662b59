"""A checkpoint that torch writes to a disk that fills up: torch hides the error code, the pause comes all the same."""

from __future__ import annotations

import threading
from pathlib import Path

import mounts
import pytest
import torch

from rods.exchange import marker, pressure
from rods.exchange.pressure import DiskFullError, Pause
from rods.exchange.rundir import RunDir
from rods.training import checkpoint
from rods.training.checkpoint import Position

WAIT_S = 30.0


class TorchWriter:
    """A learner with 200 kB of weights, written as DeepSpeed does."""

    rank = 0

    def __init__(self, value: float) -> None:
        self.value = value

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        torch.save({"weights": torch.full((50_000,), self.value)}, folder / "weights.pt")


def save(run: RunDir, step: int) -> Path:
    return checkpoint.save(run, Position(step, 1, 0), TorchWriter(float(step)), {"step": step}, keep=2)


def weights(folder: Path) -> float:
    return float(torch.load(folder / "weights.pt", weights_only=True)["weights"].mean())


def leave(folder: Path, free_bytes: int) -> Path:
    """Fill all but `free_bytes`: room to begin a checkpoint by its folders, not to end it."""
    hole = folder / "hole"
    hole.write_bytes(bytes(free_bytes))
    ballast = mounts.fill(folder)
    hole.unlink()
    return ballast


@pytest.mark.parametrize("free_bytes", [0, 60_000])
def test_a_checkpoint_waits_for_space_and_the_last_one_stays(free_bytes: int, tmp_path: Path) -> None:
    with mounts.tmpfs(tmp_path / "small", "size=1500k") as disk:
        run = RunDir.create(disk, "full", "0" * 64)
        # Before the first of a run nothing tells how large it gets: torch itself meets the full disk.
        before = None if free_bytes else save(run, 1)
        ballast = leave(disk, free_bytes)
        with pytest.raises(DiskFullError):
            save(run, 2)
        paused = threading.Event()
        policy = Pause("train", lambda: False, lambda *_, **__: paused.set())
        with pressure.using(policy):
            saving = threading.Thread(target=save, args=(run, 2))
            saving.start()
            assert paused.wait(WAIT_S)
            assert checkpoint.latest(run) == before
            if before:
                assert weights(before) == 1.0
            ballast.unlink()
            saving.join(WAIT_S)
        assert not saving.is_alive()
        newest = checkpoint.latest(run)
        assert newest is not None
        assert weights(newest) == 2.0
        assert marker.flaw(newest) is None
        assert len(list(run.checkpoints.iterdir())) == (2 if before else 1), "nothing torn is left"
