"""A checkpoint that torch writes to a disk that fills up: torch hides the error code, the pause comes all the same."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import mounts
import numpy as np
import pytest
import torch
from faults import kill_at_every_point
from safetensors.numpy import load_file, save_file

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


class Exporter:
    """A policy of 200 kB as safetensors writes it, in two files."""

    rank = 0

    def __init__(self, value: float) -> None:
        self.weights = np.full(50_000, value, np.float32)

    def export(self, folder: Path) -> None:
        (folder / "config.json").write_text("{}")
        save_file({"weights": self.weights}, folder / "model.safetensors")


def exported(folder: Path) -> float:
    return float(load_file(folder / "model.safetensors")["weights"].mean())


def test_the_finished_policy_waits_for_space_and_is_whole_or_not_there(tmp_path: Path) -> None:
    with mounts.tmpfs(tmp_path / "small", "size=1500k") as disk:
        target = disk / "policy"
        checkpoint.export(target, Exporter(1.0))
        ballast = leave(disk, 60_000)
        with pytest.raises(DiskFullError):
            checkpoint.export(target, Exporter(2.0))
        assert [path.name for path in disk.iterdir() if path != ballast] == ["policy"]
        paused = threading.Event()
        with pressure.using(Pause("train", lambda: False, lambda *_, **__: paused.set())):
            exporting = threading.Thread(target=checkpoint.export, args=(target, Exporter(2.0)))
            exporting.start()
            assert paused.wait(WAIT_S)
            assert exported(target) == 1.0
            ballast.unlink()
            exporting.join(WAIT_S)
        assert exported(target) == 2.0
        assert sorted(path.name for path in disk.iterdir()) == ["policy"]


def test_an_export_that_a_death_cut_short_is_no_policy_and_is_begun_again(tmp_path: Path) -> None:
    target = tmp_path / "policy"

    def prepare() -> Callable[[], object]:
        for path in tmp_path.iterdir():
            shutil.rmtree(path)
        return lambda: checkpoint.export(target, Exporter(1.0))

    def check() -> None:
        assert not target.exists() or exported(target) == 1.0
        checkpoint.export(target, Exporter(3.0))
        assert exported(target) == 3.0
        assert [path.name for path in tmp_path.iterdir()] == ["policy"]

    assert kill_at_every_point(prepare, check, path=f"{tmp_path}/*", moments=["before"]) > 5
