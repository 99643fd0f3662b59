"""`rods synthesize` as a person types it: refused early, and told where its dataset is and what it is for."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rods.cli import app
from rods.commands.common import UsageError


def test_a_source_that_is_none_is_refused_with_those_that_are(tmp_path: Path) -> None:
    out = tmp_path / "data"
    done = CliRunner().invoke(app, ["synthesize", "--tasks", "scrpted", "--count", "1", "--out", str(out)])
    assert isinstance(done.exception, UsageError)
    assert "expected bfcl, scripted, a dataset's folder" in str(done.exception)
    assert not out.exists()


def test_a_finished_dataset_says_where_it_is_and_how_to_train_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["synthesize", "--tasks", "scripted", "--count", "1", "--out", "small"])
    assert done.exit_code == 0, done.output
    assert "rods variants small" in done.stderr
    assert f"tasks=file tasks.path={tmp_path}/small synthesis.enabled=false" in done.stderr
