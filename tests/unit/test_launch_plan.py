"""Planning: everything printed, nothing written, and a batch text that stays as it was agreed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from launchers import plan, slurm
from launchers.errors import LaunchError
from launchers.identity import config_hash, differences
from launchers.resources import resources
from rods.config import ClusterConfig, Config, JobConfig, LaunchConfig, SynthesisConfig, from_mapping
from rods.config.evaluation import EvaluationConfig
from rods.config.stages import StageConfig

ROOT = Path(__file__).parents[2]
CLUSTER = ClusterConfig(
    kind="slurm",
    partition="gpu",
    account="lab",
    time_hours=72,
    signal_seconds=120,
    gpu_type="a100",
    setup=("module load cuda",),
    extra={"exclusive": "user"},
    train=JobConfig(nodes=1, gpus_per_node=8, cpus_per_task=64, mem_gb=500),
    synthesis=JobConfig(nodes=2, gpus_per_node=4, cpus_per_task=32),
)
PAPER = Config(experiment="golden", cluster=CLUSTER)


def test_cost_is_time_limit_times_gpus() -> None:
    built = plan.build(PAPER)
    assert built.gpu_hours == 72 * (8 + 2 * 4)
    assert "at most 1152 GPU-hours" in plan.render(built)
    chained = plan.build(replace(PAPER, launch=LaunchConfig(chain=3)))
    assert "(72 h × 16 GPUs), 3456 for the chain of 3" in plan.render(chained)
    assert [role.role for role in built.roles] == ["train", "synthesis"]


def test_a_run_on_this_machine_has_no_price_and_no_limit() -> None:
    built = plan.build(replace(PAPER, cluster=replace(CLUSTER, kind="local")))
    assert (built.time_hours, built.gpu_hours) == (None, None)
    text = plan.render(built)
    assert "cost         nothing is allocated here, and no time limit ends the run" in text
    assert "GPU-hours" not in text


@pytest.mark.parametrize(
    ("changes", "length"),
    [
        ({"epochs": 3}, "3 epochs, each over the pool as it stands then, 16 tasks × 8 rollouts a step"),
        ({"trajectories": 960}, "16 tasks × 8 rollouts a step, no more than 960 rollouts"),
        ({"stages": (StageConfig(epochs=2), StageConfig(epochs=4))}, "at most 6 epochs, each"),
    ],
)
def test_a_plan_says_how_much_training_is_asked_for(changes: dict[str, Any], length: str) -> None:
    training = replace(PAPER.training, tasks_per_step=16, group_size=8, **changes)
    assert length in plan.render(plan.build(replace(PAPER, training=training)))


def test_a_plan_of_an_evaluation_trains_nothing() -> None:
    only = replace(PAPER, evaluation=EvaluationConfig(enabled=True, policy="shipped/tiny"))
    assert "length       one evaluation, no training" in plan.render(plan.build(only))


def test_a_plan_shows_the_configuration_whole() -> None:
    built = plan.build(PAPER)
    assert from_mapping(yaml.safe_load(built.config)) == from_mapping(PAPER.to_dict())


def test_inherited_scheduler_variables_do_not_reach_the_submission(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_JOB_ID", "SBATCH_PARTITION", "PMIX_RANK", "SRUN_CPUS_PER_TASK"):
        monkeypatch.setenv(name, "7")
    for name in ("RODS_KEEP", "SLURM_CONF"):
        monkeypatch.setenv(name, "1")
    with slurm.scrubbed_environment():
        left = {name for name in os.environ if name.startswith(("SLURM_", "SBATCH_", "PMIX_", "SRUN_"))}
        assert left == {"SLURM_CONF"}  # without it sbatch does not find its cluster
        assert os.environ["RODS_KEEP"] == "1"
    assert os.environ["SLURM_JOB_ID"] == "7"


def test_without_slurm_a_submission_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchError, match="expected the commands sbatch and srun"):
        slurm.check_available()


def test_how_a_run_is_launched_is_not_part_of_its_identity() -> None:
    same = replace(PAPER, launch=LaunchConfig(runs_dir="elsewhere"), cluster=ClusterConfig())
    assert config_hash(same) == config_hash(PAPER)
    other = replace(PAPER, seed=1)
    assert config_hash(other) != config_hash(PAPER)
    assert differences(PAPER, other) == ["seed: 0 → 1"]


def test_roles_follow_the_configuration() -> None:
    assert [role.gpus for role in resources(PAPER)] == [8, 8]
    assert [role.role for role in resources(replace(PAPER, synthesis=SynthesisConfig(enabled=False)))] == [
        "train"
    ]


def launch(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """launch.py as a user calls it, from another folder."""
    return subprocess.run(
        [sys.executable, str(ROOT / "launch.py"), *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("experiment", ["rods_qwen4b", "rods_tiny"])
def test_plan_mode_prints_and_writes_nothing(tmp_path: Path, experiment: str) -> None:
    done = launch(tmp_path, f"+experiment={experiment}", "launch.mode=plan")
    assert done.returncode == 0, done.stderr
    first, *_, last = done.stdout.strip().split("\n\n")
    assert "run dir " in first
    assert first == last
    assert "\n\n--- resolved configuration ---\n" in done.stdout
    assert ("#SBATCH hetjob" in done.stdout) == (experiment == "rods_qwen4b")
    assert not list(tmp_path.rglob("*"))


def test_a_plan_whose_reader_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "launch.py"), "+experiment=rods_tiny", "launch.mode=plan"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (0, b"")


def test_a_contradiction_is_one_message_and_status_2(tmp_path: Path) -> None:
    done = launch(tmp_path, "+experiment=rods_tiny", "training.group_size=1")
    assert done.returncode == 2
    assert "training.group_size = 1: the advantage of a group of one is always 0" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("*"))


def test_a_run_directory_that_is_none_is_refused(tmp_path: Path) -> None:
    done = launch(tmp_path, "+experiment=rods_tiny", f"launch.resume={tmp_path}")
    assert done.returncode == 2
    assert "not a RODS run directory" in done.stderr
    assert not list(tmp_path.rglob("*"))


def test_a_runs_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    done = launch(tmp_path, "+experiment=rods_tiny", f"launch.runs_dir={file}")
    assert done.returncode == 2
    assert done.stderr.startswith("launch.py: ")
    assert str(file) in done.stderr
    assert "Traceback" not in done.stderr


def test_launching_imports_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys, runpy; sys.argv = ['launch.py', '+experiment=rods_qwen4b', 'launch.mode=plan']\n"
        f"try: runpy.run_path({str(ROOT / 'launch.py')!r}, run_name='__main__')\n"
        "except SystemExit: pass\n"
        "import rods.roles.launching\n"
        "print('HEAVY', [m for m in ('torch', 'transformers', 'vllm', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.rstrip().endswith("HEAVY []"), done.stdout[-300:]
