"""A trainer of two nodes: it ends as on one node, and when a node is lost its job goes back into the queue.

Two tasks of one Slurm step stand for the nodes, with what Slurm tells them in their environments; on a real Slurm the
same is looked at by tests/slurm.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from rods.exchange.heartbeat import read_all
from rods.exchange.lineage import history
from rods.exchange.rundir import RunDir
from rods.roles.preparing import prepare

ROOT = Path(__file__).parents[2]
SETTINGS = (
    "+experiment=static_tiny",
    "cluster=slurm_test",
    "rollout.engine=hf",
    "training.epochs=1",
    "training.tasks_per_step=4",
    "training.group_size=2",
    "training.threads=1",
    "tasks.train_count=8",
    "tasks.heldout_count=0",
    "tracking.wandb=disabled",
)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def prepared(folder: Path, nodes: int, *more: str) -> RunDir:
    """A run of two ranks, ready for its first attempt."""
    own = [
        f"cluster.train.nodes={nodes}",
        f"training.ranks_per_node={2 // nodes}",
        f"launch.runs_dir={folder}",
    ]
    with initialize_config_dir(str(ROOT / "conf"), version_base=None):
        config = compose("config", overrides=[*SETTINGS, *own, *more])
    file = folder / "run.yaml"
    folder.mkdir()
    file.write_text(OmegaConf.to_yaml(config, resolve=True))
    run = prepare(file)
    run.next_attempt()
    return run


def tasks(run: RunDir, nodes: int) -> list[subprocess.Popen[bytes]]:
    """The run's tasks, one a node, as srun starts them; what scontrol is told to do goes into `scontrol` there."""
    logs = run.attempt_dir(1)
    tool = logs / "bin" / "scontrol"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\necho "$@" >>{logs}/scontrol\n')
    tool.chmod(0o755)
    return [
        subprocess.Popen(
            [sys.executable, "-m", "rods.roles.entry", str(run.path)],
            env=os.environ
            | {"SLURM_JOB_ID": "1", "SLURM_PROCID": str(node), "SLURMD_NODENAME": f"n{node + 1}"}
            | {"RODS_ROLE": "train", "RODS_ATTEMPT": "1", "RODS_LOGS": str(logs), "RODS_REPLICA": str(node)}
            | {
                "PYTHONPATH": str(run.path / "code"),
                "OMP_NUM_THREADS": "1",
                "PATH": f"{tool.parent}:/usr/bin:/bin",
            },
            stderr=(logs / f"task-{node}.err").open("wb"),
            stdout=subprocess.DEVNULL,
            cwd=logs,
        )
        for node in range(nodes)
    ]


def ended(processes: Sequence[subprocess.Popen[bytes]], run: RunDir, within_s: float = 300) -> list[int]:
    """Their statuses."""
    try:
        return [process.wait(within_s) for process in processes]
    except subprocess.TimeoutExpired:
        raise AssertionError(errors(run)) from None
    finally:
        for process in processes:
            process.kill()


def until(condition: Callable[[], bool], process: subprocess.Popen[bytes], run: RunDir) -> None:
    """Wait for it while `process` lives."""
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, errors(run)
        assert process.poll() is None, errors(run)
        time.sleep(0.2)


def errors(run: RunDir) -> str:
    return "\n".join(file.read_text()[-2000:] for file in run.attempt_dir(1).glob("*.err"))


def test_two_nodes_make_the_run_that_one_makes(tmp_path: Path) -> None:
    two, one = (prepared(tmp_path / str(nodes), nodes) for nodes in (2, 1))
    assert ended(tasks(two, 2), two) == [0, 0], errors(two)
    assert ended(tasks(one, 1), one) == [0], errors(one)
    assert history(two.journal_dir, "train") == history(one.journal_dir, "train")
    assert history(two.journal_dir, "train")[-1]["name"] == "run_finished"


def test_a_warning_in_the_middle_of_rollouts_saves_the_step_before_and_requeues(tmp_path: Path) -> None:
    long = ("training.group_size=128", "launch.stop_deadline_s=0")  # half a minute of episodes
    run = prepared(tmp_path / "warned", 2, *long)
    first, _ = processes = tasks(run, 2)
    until(
        lambda: "train" in (beats := read_all(run.heartbeats)) and beats["train"].phase == "rollout",
        first,
        run,
    )
    first.send_signal(signal.SIGUSR2)
    assert ended(processes, run, 200) == [0, 0], errors(run)
    said = json.loads((run.attempt_dir(1) / "outcome.json").read_text())
    assert (said["status"], "the time limit is near" in said["sentence"]) == ("requeued", True)
    assert "requeue 1" in (run.attempt_dir(1) / "scontrol").read_text().splitlines()
    assert not [*run.rollouts.glob("step_*.jsonl")], "the step was finished"
    assert [*run.checkpoints.glob("*/COMPLETE")]


def test_a_lost_node_is_named_and_the_job_goes_back(tmp_path: Path) -> None:
    run = prepared(tmp_path / "lost", 2, "training.epochs=500")
    first, second = processes = tasks(run, 2)
    until((run.rollouts / "step_000001.jsonl").exists, first, run)
    second.send_signal(signal.SIGKILL)
    assert ended(processes, run, 120) == [0, -signal.SIGKILL], errors(run)
    said = json.loads((run.attempt_dir(1) / "outcome.json").read_text())
    assert said["status"] == "requeued"
    assert "the trainer's node 1 (n2, with rank 1 of 2) has given no sign of life" in said["sentence"]
    assert (run.attempt_dir(1) / "scontrol").read_text() == "requeue 1\n"
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            title = file.read_bytes()
        except OSError:
            continue
        assert not (title.startswith(b"rods-train") and run.path.name.encode() in title), "left behind"
