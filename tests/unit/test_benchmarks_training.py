"""The training benchmark's front, and the GPU check where there is no GPU, or one whose installation fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import training
from benchmarks.training import Scale

CHECK = Path(__file__).parents[2] / "benchmarks" / "gpu_check.sh"


def run_check(tmp_path: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """The script with these programs first in the path."""
    programs_dir = tmp_path / "bin"
    programs_dir.mkdir()
    for name, text in programs.items():
        program = programs_dir / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs_dir}:{os.environ['PATH']}", "PYTHON": sys.executable}
    return subprocess.run(
        ["bash", str(CHECK), str(tmp_path / "out")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("nvidia_smi", ["exit 9", "exit 0"])
def test_a_machine_without_a_gpu_is_told_so(nvidia_smi: str, tmp_path: Path) -> None:
    done = run_check(tmp_path, nvidia_smi=nvidia_smi)
    assert done.returncode == 3
    assert "no GPU" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_failed_check_is_in_the_report_and_in_the_exit_status(tmp_path: Path) -> None:
    environment = tmp_path / "out" / "venv" / "bin"
    environment.mkdir(parents=True)
    (environment / "python").write_text("#!/bin/sh\necho no index here >&2\nexit 1\n")
    (environment / "python").chmod(0o755)
    done = run_check(tmp_path, nvidia_smi="echo NVIDIA Test")
    assert done.returncode == 1
    report = json.loads((tmp_path / "out" / "gpu_check.json").read_text())
    assert report == json.loads(done.stdout)
    assert (report["gpus"], report["passed"], list(report["checks"])) == (1, False, ["install"])
    assert "no index here" in (tmp_path / "out" / "install.log").read_text()


@pytest.mark.parametrize(("gpus", "served"), [(1, False), (2, True)])
def test_all_checks_run_and_are_told_by_name(gpus: int, served: bool, tmp_path: Path) -> None:
    environment = tmp_path / "out" / "venv" / "bin"
    environment.mkdir(parents=True)
    (environment / "python").write_text('#!/bin/sh\necho "{\\"said\\": \\"$*\\"}"\n')
    (environment / "python").chmod(0o755)
    done = run_check(tmp_path, nvidia_smi="echo NVIDIA Test\n" * gpus)
    assert done.returncode == 0, done.stderr
    checks = json.loads(done.stdout)["checks"]
    names = [
        "install",
        "parity",
        "learner",
        "zero3",
        "learning",
        *(["served"] if served else []),
        "benchmark",
    ]
    assert list(checks) == names
    assert "training.zero_stage=3" in checks["zero3"]["figures"]["said"]
    assert checks["learning"]["heldout"] == []


def test_the_front_puts_each_figure_under_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(figure: str, engine: str, scale: Scale) -> list[str]:
        said = json.dumps({"of": f"{figure} {engine} {scale.repeats} {scale.tasks}"})
        return [
            sys.executable,
            "-c",
            f"import os; print('noise', os.environ['OMP_NUM_THREADS']); print('{said}')",
        ]

    monkeypatch.setattr(training, "command", told)
    assert training.main(["--json", "--repeats", "2"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert {name: found[name] for name in training.FIGURES} == {
        name: {"of": f"{name} hf 2 32"} for name in ("update", "rollout", "overhead")
    }
    assert found["cores"] == os.cpu_count()
    assert found["load_before"] >= 0
    assert training.main(["--small", "--figures", "rollout"]) == 0
    assert json.loads(capsys.readouterr().out)["rollout"] == {"of": "rollout hf 1 4"}


@pytest.mark.parametrize(
    ("program", "why"),
    [("raise SystemExit(4)", "exit status 4"), ("print('no figure')", "no JSON at the end"), ("", "no JSON")],
)
def test_a_figure_that_fails_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], program: str, why: str
) -> None:
    programs = {"update": program, "rollout": "print('{\"is\": 1}')"}
    monkeypatch.setattr(training, "command", lambda figure, *_: [sys.executable, "-c", programs[figure]])
    assert training.main(["--figures", "update", "rollout"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert why in found["update"]["error"]
    assert found["rollout"] == {"is": 1}


@pytest.mark.parametrize("figure", training.FIGURES)
def test_the_commands_are_ones_that_the_measurements_take(figure: str) -> None:
    command = training.command(figure, "hf", training.SMALL)
    done = subprocess.run([*command[:3], "--help"], capture_output=True, text=True, check=True)
    given = {word for word in command if word.startswith("--")}
    assert all(option in done.stdout for option in given)
