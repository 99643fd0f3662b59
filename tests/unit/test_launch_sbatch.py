"""The ready batch files: what launch.py would write, with the run and the interpreter left open; a run prepared from
plain YAML goes through them.

RENEW_GOLDEN=1 writes them anew; read the difference before it is committed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from launch_stubs import ROOT, stub_run, write_srun

from launchers import snapshot
from launchers.batches import Batch, batches
from launchers.identity import plain
from launchers.texts import batch_text
from rods.config import Config, ConfigError, from_mapping
from rods.exchange import stop
from rods.exchange.rundir import RunDir
from rods.roles.preparing import prepare

USAGE = """\
# {what}.
# To be submitted by hand: no Hydra, no submitit. It is what launch.py writes for cluster=slurm_a100, with the run and
# the interpreter left open. Site admins: partition and account go into each header.
#
#   python launch.py +experiment=rods_qwen4b --cfg job >my.yaml     # or a file of your own: see rods/config/
#   python -m rods.roles.preparing my.yaml                          # prints the run directory
#   sbatch {option}--export=ALL,RODS_RUN_DIR=/shared/runs/NAME,RODS_PYTHON=/shared/env/bin/python {name}
#
# Submitted once more, it continues the run."""
OPEN = """\
: "${RODS_RUN_DIR:?give the run directory: sbatch --export=ALL,RODS_RUN_DIR=PATH,RODS_PYTHON=PATH FILE}"
: "${RODS_PYTHON:?give the interpreter of the environment: sbatch --export=ALL,RODS_RUN_DIR=PATH,RODS_PYTHON=PATH FILE}"
export RODS_RUN_DIR"""
FILES = {
    "het.sbatch": ("het", 0, "Both roles of a run as one heterogeneous job"),
    "single.sbatch": ("single", 0, "Both roles of a run as one job of two nodes, the first of which trains"),
    "pair_train.sbatch": ("pair", 0, "The trainer of a run as a job of its own"),
    "pair_synthesis.sbatch": (
        "pair",
        1,
        "The synthesis of a run as a job of its own, beside pair_train.sbatch",
    ),
}


def composed(*overrides: str) -> Config:
    with initialize_config_dir(version_base="1.3", config_dir=str(ROOT / "conf")):
        return from_mapping(compose("config", overrides=["+experiment=rods_tiny", *overrides]))


def ready(name: str) -> str:
    """The ready file, from the text for one run."""
    kind, index, what = FILES[name]
    config = composed("cluster=slurm_a100", f"cluster.coschedule={kind}")
    batch: Batch = batches(config)[index]
    lines = batch_text(batch, config, Path("RUN"), 1).replace(sys.executable, '"$RODS_PYTHON"').splitlines()
    option = "--dependency=after:TRAINER " if batch.follows_trainer else ""
    lines[1] = USAGE.format(what=what, name=name, option=option)
    kept = [line for line in lines if not line.startswith(("#SBATCH --output", "#SBATCH --error"))]
    text = "\n".join(kept).replace("export RODS_RUN_DIR=RUN", OPEN)
    job = "rods.synthesis" if batch.series else "rods"
    return "\n".join(
        f"#SBATCH --job-name={job}" if line.startswith("#SBATCH --job-name") else line
        for line in text.splitlines()
    )


def submit(file: Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a batch file as Slurm's batch step would, with a stand-in for srun."""
    write_srun(folder)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", **variables}
    return subprocess.run(["bash", str(file)], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", FILES)
def test_it_is_what_a_launch_would_write(name: str) -> None:
    file = ROOT / "sbatch" / name
    if os.environ.get("RENEW_GOLDEN"):
        file.write_text(ready(name) + "\n")
    assert file.read_text() == ready(name) + "\n"
    subprocess.run(["bash", "-n", str(file)], check=True)


def test_no_other_file_lies_there() -> None:
    assert {path.name for path in (ROOT / "sbatch").iterdir()} == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_it_says_what_it_needs(name: str, tmp_path: Path) -> None:
    done = submit(ROOT / "sbatch" / name, tmp_path)
    assert done.returncode != 0
    assert "give the run directory" in done.stderr
    done = submit(ROOT / "sbatch" / name, tmp_path, RODS_RUN_DIR=str(tmp_path))
    assert done.returncode != 0
    assert "give the interpreter of the environment" in done.stderr


@pytest.mark.parametrize("name", ["het.sbatch", "single.sbatch"])
def test_a_frozen_run_goes_through_it(name: str, tmp_path: Path) -> None:
    run = stub_run(tmp_path, "finish", "until stopped")
    variables = {"RODS_RUN_DIR": str(run.path), "RODS_PYTHON": sys.executable}
    done = submit(ROOT / "sbatch" / name, tmp_path, **variables)
    assert done.returncode == 0, done.stderr
    assert stop.is_finished(run)
    assert "hello from synthesis" in (run.attempt_dir(1) / "synthesis.out").read_text()


def test_a_failing_role_fails_the_job(tmp_path: Path) -> None:
    run = stub_run(tmp_path, "exit 7", "until stopped")
    variables = {"RODS_RUN_DIR": str(run.path), "RODS_PYTHON": sys.executable}
    assert submit(ROOT / "sbatch/pair_train.sbatch", tmp_path, **variables).returncode != 0


def test_a_run_is_prepared_from_plain_yaml(tmp_path: Path) -> None:
    config = composed("cluster=slurm_a100")
    config = replace(config, launch=replace(config.launch, runs_dir=str(tmp_path / "runs")))
    file = tmp_path / "my.yaml"
    file.write_text(yaml.safe_dump(plain(config)))
    done = subprocess.run(
        [sys.executable, "-m", "rods.roles.preparing", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    run = RunDir.open(Path(done.stdout.strip()))
    assert snapshot.verify(run) == from_mapping(plain(config))
    assert run.last_attempt() == 0


@pytest.mark.parametrize(
    "text", ["", "- a\n", "a: [", "\x00", "nonsense: 1\n", "training: {group_size: 1}\n"]
)
def test_what_is_no_configuration_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "my.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError):
        prepare(file)
    assert list(tmp_path.iterdir()) == [file]
