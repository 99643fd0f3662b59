"""What a person types wrong is refused with the nearest right thing, and nothing is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from launchers.terminal import launch_line
from rods.config import ConfigError
from rods.config.compose import compose

ROOT = Path(__file__).parents[2]
TINY = "+experiment=rods_tiny"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ([TINY, "training.epoch=1"], "did you mean training.epochs?"),
        ([TINY, "epochs=1"], "did you mean training.epochs?"),
        ([TINY, "zzzzzz=1"], "zzzzzz: no such setting; launch.py --cfg job shows all"),
        (["+experiment=rods_tinny"], "did you mean +experiment=rods_tiny?"),
        ([TINY, "+ablation=binary_rewrd"], "did you mean +ablation=binary_reward?"),
        ([TINY, "cluster=slurm_a10"], "did you mean cluster=slurm_a100?"),
        ([TINY, "cluster=nowhere"], "there are local, slurm_a100"),
        (["experiment=rods_tiny"], "write it with a plus, +experiment=NAME"),
        (["rods_tiny"], "did you mean +experiment=rods_tiny?"),
        ([TINY, "seed=1,2"], "seed=1,2: several values are a sweep: add -m"),
        ([TINY, "model.path=~/4b"], """of its own, within the shell's: "model.path='~/4b'\""""),
        ([TINY, "model.path=a=é"], """of its own, within the shell's: "model.path='a=é'\""""),
        ([TINY, "seed=[1"], "no viable alternative at input"),
    ],
)
def test_a_typo_is_answered_with_what_was_meant(typed: list[str], told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        compose(typed)
    assert told in str(refused.value)
    assert "HYDRA_FULL_ERROR" not in str(refused.value)


def launch(cwd: Path, *arguments: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    """launch.py as a user calls it, from an empty folder."""
    return subprocess.run(
        [python, *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ([], "\n  on a laptop: envtuning_tiny, "),
        ([], "\n  other: evaluate_only, rods_smollm2\n"),
        (["-m", "seed=1,2"], "no experiment was chosen"),
        ([TINY, "training.epoch=1"], "launch.py: training.epoch: no such setting"),
        ([TINY, "seed=1,2"], "add -m"),
        (["-m", "+experiment=rods_tinny", "seed=1,2"], "did you mean +experiment=rods_tiny?"),
    ],
)
def test_a_refusal_is_a_sentence_status_2_and_no_folder(tmp_path: Path, typed: list[str], told: str) -> None:
    done = launch(tmp_path, str(ROOT / "launch.py"), *typed)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mode", ["plan", "wait"])
@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["tasks=file", "tasks.path=/nope"], "found none at /nope"),
        (["model.path=/nope"], "model.path = '/nope'"),
        (["model.path=./nope"], "/nope': expected a Hugging Face model folder"),
    ],
)
def test_a_missing_path_is_told_before_the_start(
    tmp_path: Path, typed: list[str], told: str, mode: str
) -> None:
    done = launch(tmp_path, str(ROOT / "launch.py"), TINY, *typed, f"launch.mode={mode}")
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert not list(tmp_path.iterdir())


def test_what_only_a_cluster_has_is_planned_here(tmp_path: Path) -> None:
    typed = ["+experiment=rods_qwen4b", "model.path=/nope", "launch.mode=plan"]
    assert launch(tmp_path, str(ROOT / "launch.py"), *typed).returncode == 0


def test_what_hydra_only_shows_is_no_refusal(tmp_path: Path) -> None:
    done = launch(tmp_path, str(ROOT / "launch.py"), TINY, "--cfg", "job")
    assert (done.returncode, done.stderr) == (0, "")
    assert "experiment: rods_tiny" in done.stdout


def test_a_python_without_the_packages_is_told_where_they_are(tmp_path: Path) -> None:
    done = launch(tmp_path, "-S", "-I", str(ROOT / "launch.py"), TINY)
    assert done.returncode == 2
    assert "make install" in done.stderr
    assert ".venv/bin/python" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_printed_launch_line_works_from_where_it_is_read(tmp_path: Path) -> None:
    typed = launch_line([TINY, "launch.mode=plan", "model.path=shipped/tiny"])
    done = subprocess.run(
        typed, shell=True, cwd=Path.cwd(), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
