"""Ctrl-C while a program is still importing: one line and the shell's status, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RODS = ["-c", "from rods.console import main; main()", "ls"]


@pytest.mark.parametrize(
    ("words", "imported", "told"),
    [
        (RODS, "typer", "rods: interrupted\n"),
        (["launch.py", "+experiment=rods_tiny"], "hydra", "launch.py: interrupted\n"),
    ],
)
def test_an_interrupt_during_the_imports_is_one_line(
    tmp_path: Path, words: list[str], imported: str, told: str
) -> None:
    (tmp_path / f"{imported}.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", told)


def test_the_installed_command_is_that_one() -> None:
    (line,) = [
        line for line in (ROOT / "setup.cfg").read_text().splitlines() if line.strip().startswith("rods = ")
    ]
    assert line.split("=")[1].strip() == "rods.console:main"
