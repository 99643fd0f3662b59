"""Two ranks save together: when one of them fails, both know, and neither waits for the other for ever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rods.exchange.rundir import RunDir
from rods.training import checkpoint

RANK = Path(__file__).parents[1] / "checkpoint_rank.py"


def save_together(run: RunDir, failing: int, times: int, error: str, way: str = "together") -> list[str]:
    """What each rank told."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(RANK), str(run.path)]
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(failing), str(times), error, way],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    return [rank.communicate(timeout=120)[0].strip() for rank in ranks]


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    return RunDir(tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failing", "error", "reason"), [(0, "library", "own words"), (1, "denied", "denied")]
)
def test_a_failure_of_one_rank_is_one_of_both(run: RunDir, failing: int, error: str, reason: str) -> None:
    told = save_together(run, failing, 1, error)
    assert all(reason in text for text in told), told
    assert f"PeerError: rank {failing} of 2 failed" in told[1 - failing]
    assert list(run.checkpoints.iterdir()) == []


@pytest.mark.slow
def test_a_full_disk_is_waited_for_together(run: RunDir) -> None:
    assert save_together(run, 0, 2, "full") == ["saved", "saved"]
    folder = checkpoint.latest(run)
    assert folder is not None
    assert sorted(path.name for path in folder.iterdir()) == [
        "COMPLETE",
        "extra.json",
        "rank0.pt",
        "rank1.pt",
    ]


@pytest.mark.slow
def test_a_thread_that_fails_on_another_rank_is_heard_of(run: RunDir) -> None:
    told = save_together(run, 1, 1, "denied", "beside")
    assert told == ["PeerError: rank 1 of 2 failed: PermissionError: [Errno 13] denied", "saved"]
    assert list(run.checkpoints.iterdir()) == []


@pytest.mark.slow
def test_threads_wait_for_a_full_disk_together(run: RunDir) -> None:
    assert save_together(run, 0, 2, "full", "beside") == ["saved", "saved"]
    assert checkpoint.latest(run) is not None
