"""An evaluation by itself as a Slurm job: submitted, followed to its end, its result in its run directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from slurm_runs import PATIENCE_S, ROOT, Run

from rods.exchange.atomic import read_json

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(600)]
SETTINGS = (
    "+experiment=evaluate_only",
    "cluster=slurm_test",
    "cluster.train.gpus_per_node=1",
    "evaluation.policy=shipped/tiny",
    "evaluation.suite=scripted",
    "rollout.engine=hf",
    "tasks.heldout_count=4",
    "tracking.wandb=disabled",
)


def test_an_evaluation_is_a_job_like_any_other(cluster: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "launch.py", *SETTINGS, f"launch.runs_dir={tmp_path}"],
        cwd=ROOT,
        env=cluster,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.iterdir()
    run = Run(cluster, path, done.stdout)
    run.until_over()
    assert run.finished()
    assert run.outcome(1)["status"] == "finished"
    assert [event["name"] for event in run.deeds()] == ["evaluation_done", "run_finished"]
    result = read_json(path / "evaluations" / "scripted-heldout" / "result.json")
    assert result["overall"]["count"] == 4
    run.until_accounted("train")
    (start,) = run.starts()
    assert start[1] == "COMPLETED"
    assert "gres/gpu=1" in start[3]
