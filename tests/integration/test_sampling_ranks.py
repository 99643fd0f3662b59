"""Rollouts over several ranks: each draws a share, and all get what one rank alone would have drawn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def draw(folder: Path, ranks: int) -> list[Any]:
    """What each rank says."""
    command = [sys.executable, str(ROOT / "tests" / "sampling_rank.py"), str(folder / f"store{ranks}")]
    path = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    processes = [
        subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    said = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * ranks
    return [json.loads(text.splitlines()[-1]) for text in said]


def test_two_ranks_share_the_work_and_both_get_every_group(tmp_path: Path) -> None:
    (alone,) = draw(tmp_path, 1)
    one, other = draw(tmp_path, 2)
    assert one[:4] == other[:4]
    assert one[0] == alone[0]
    assert [group[0] for group in one[1]] == ["a", "b", "c", "d", "e"]
    assert one[2] <= 4
    assert (one[4], other[4], alone[4]) == (["a", "c", "e"], ["b", "d"], ["a", "b", "c", "d", "e"])
