"""The walls between the rooms, as pyproject.toml draws them, and that they are walls."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINT = "import sys; from importlinter.cli import lint_imports_command; sys.argv = ['lint-imports', '--no-cache']; "


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    """import-linter over a source tree."""
    return subprocess.run(
        [sys.executable, "-c", f"{LINT} sys.path.insert(0, {str(root)!r}); lint_imports_command()"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_room_reaches_through_a_wall() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout
    assert " 0 broken" in done.stdout


def test_a_breach_is_found(tmp_path: Path) -> None:
    for name in ("rods", "launchers", "analysis"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "assets"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "launchers" / "plan.py").open("a") as file:
        file.write("\nimport torch\n")
    done = lint(tmp_path)
    assert done.returncode != 0
    assert "launchers and config import no torch BROKEN" in done.stdout
