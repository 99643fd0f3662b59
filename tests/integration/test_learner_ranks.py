"""Two launched ranks train like one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from learner_examples import TRAINING, learner, samples

HELPERS = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("zero_stage", [2, 3])
def test_two_ranks_equal_one(policy_dir: Path, tmp_path: Path, zero_stage: int) -> None:
    alone = learner(policy_dir, replace(TRAINING, learning_rate=1e-4, mini_batches=2))
    wanted = alone.update(*samples(12))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = [str(HELPERS / "learner_rank.py"), str(policy_dir), str(tmp_path), str(zero_stage)]
    launched = subprocess.run(
        command + script,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{HELPERS}:{HELPERS.parent}"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert launched.returncode == 0, launched.stderr[-3000:]
    for rank in (0, 1):
        metrics = json.loads((tmp_path / f"metrics{rank}.json").read_text())
        assert metrics == pytest.approx(wanted, rel=1e-4, abs=1e-6)
        assert "which 2 ranks cannot share" in (tmp_path / f"refused{rank}.txt").read_text()
    weights = torch.load(tmp_path / "weights.pt", weights_only=True)
    for name, tensor in alone.weights():
        torch.testing.assert_close(weights[name], tensor, rtol=0, atol=1e-5)
