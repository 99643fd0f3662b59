"""The ready batch files: readable by bash, and a frozen run goes through them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from launch_stubs import ROOT, stub_run, write_srun

from rods.exchange import stop

FILES = sorted((ROOT / "sbatch").glob("*.sbatch"))


def submit(file: Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a batch file as Slurm's batch step would, with a stand-in for srun."""
    write_srun(folder)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", **variables}
    return subprocess.run(["bash", str(file)], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_bash_can_read_it(file: Path) -> None:
    subprocess.run(["bash", "-n", str(file)], check=True)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_it_says_what_it_needs(file: Path, tmp_path: Path) -> None:
    done = submit(file, tmp_path)
    assert done.returncode != 0
    assert "give the run directory" in done.stderr


def test_a_frozen_run_goes_through_the_heterogeneous_file(tmp_path: Path) -> None:
    run = stub_run(tmp_path, "finish", "until stopped")
    run.next_attempt()
    done = submit(
        ROOT / "sbatch/het.sbatch", tmp_path, RODS_RUN_DIR=str(run.path), RODS_PYTHON=sys.executable
    )
    assert done.returncode == 0, done.stderr
    assert stop.is_finished(run)
    assert "hello from synthesis" in (run.attempt_dir(2) / "synthesis.out").read_text()


def test_a_failing_role_fails_the_job(tmp_path: Path) -> None:
    run = stub_run(tmp_path, "exit 7", "until stopped")
    done = submit(
        ROOT / "sbatch/het.sbatch", tmp_path, RODS_RUN_DIR=str(run.path), RODS_PYTHON=sys.executable
    )
    assert done.returncode == 7
