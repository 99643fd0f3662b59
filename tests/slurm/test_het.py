"""The tiny experiment as one heterogeneous job on a real Slurm: both roles on nodes of their own.

One run straight, one that Slurm signals as before a time limit and puts back into its queue, and one that Slurm
refuses.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from analysis.load import load
from rods.exchange.metrics import read_metrics

ROOT = Path(__file__).resolve().parents[2]
OVERRIDES = (
    "+experiment=rods_tiny",
    "cluster=slurm_test",
    "rollout.engine=hf",
    "training.epochs=2",
    "training.group_size=4",
    "training.tasks_per_step=6",
    "training.threads=1",
    "tasks.train_count=12",
    "tasks.heldout_count=0",
    "boundary.exclusion_steps=2",
    "tracking.wandb=disabled",
    "seed=3",
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def launch(cluster, runs_dir, *more):
    return subprocess.run(
        [sys.executable, "launch.py", *OVERRIDES, f"launch.runs_dir={runs_dir}", *more],
        cwd=ROOT,
        env=cluster,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def submit(cluster, runs_dir, *more):
    """A submitted run: its directory and the job's id."""
    done = launch(cluster, runs_dir, "launch.mode=submit", *more)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = runs_dir.iterdir()
    return path, json.loads((path / "manifest.json").read_text())["slurm_job"]


def slurm(cluster, *command):
    return subprocess.run(command, env=cluster, capture_output=True, text=True, timeout=30, check=True).stdout


def components(cluster, job):
    """State, node and GPUs of each component, from accounting."""
    # Duplicates: the starts before a requeue are records of their own.
    text = slurm(cluster, "sacct", "-X", "-n", "-P", "-j", job, "-o", "jobid,state,nodelist,alloctres")
    return [line.split("|") for line in text.splitlines()]


def await_that(condition, what, path, seconds=200):
    deadline = time.monotonic() + seconds
    while not condition():
        errors = [file.read_text()[-2000:] for file in sorted(path.glob("attempts/*/*.err"))]
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}. {errors}"
        time.sleep(0.5)


def ended(cluster, job):
    return not slurm(cluster, "squeue", "-h", "-j", job, "-o", "%i").strip()


def deeds(data):
    return [event for event in data.events if event["name"] != "run_started"]


@pytest.fixture(scope="module")
def straight(cluster, tmp_path_factory):
    """Launched with launch.mode=wait: what it printed, its directory, its job."""
    runs_dir = tmp_path_factory.mktemp("straight")
    done = launch(cluster, runs_dir, "launch.mode=wait")
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = runs_dir.iterdir()
    return done.stdout, path, json.loads((path / "manifest.json").read_text())["slurm_job"]


def test_both_roles_run_on_nodes_of_their_own_with_all_their_gpus(cluster, straight):
    output, path, job = straight
    assert load(path).finished
    assert f"submitted job {job}" in output
    assert "the run finished" in output
    rows = components(cluster, job)
    assert [row[1] for row in rows] == ["COMPLETED", "COMPLETED"]
    assert rows[0][2] != rows[1][2]
    assert all("gres/gpu=8" in row[3] for row in rows)


def test_variants_crossed_the_two_allocations(straight):
    data = load(straight[1])
    assert data.named("variant_arrived")
    assert data.named("variant_injected")


def test_a_signalled_run_is_put_back_and_ends_as_the_straight_one(cluster, straight, tmp_path):
    path, job = submit(cluster, tmp_path)
    await_that(
        lambda: any(
            "loss" in record for file in path.glob("metrics/train.jsonl") for record in read_metrics(file)
        ),
        "the first training step",
        path,
    )
    slurm(cluster, "scancel", "--signal=USR2", f"{job}+0")
    await_that(lambda: (path / "attempts" / "0002" / "train.out").exists(), "a second attempt", path)
    await_that(lambda: ended(cluster, job), "the job's end", path)
    data = load(path)
    assert data.finished
    assert deeds(data) == deeds(load(straight[1]))
    assert len(data.named("run_started")) == 2


def test_a_refusal_shows_slurms_words_and_leaves_no_run_directory(cluster, tmp_path):
    done = launch(cluster, tmp_path, "launch.mode=submit", "cluster.partition=nowhere")
    assert done.returncode == 1
    assert "invalid partition" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
