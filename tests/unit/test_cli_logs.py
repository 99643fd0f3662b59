"""`rods logs`: what a role wrote, in which attempt, and what it goes on to write."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner
from watch_examples import make_run

from rods.cli import app
from rods.commands.common import UsageError


def test_logs_are_those_of_the_newest_attempt(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    (run.attempt_dir(run.next_attempt()) / "train.out").write_text("second attempt\n")
    done = CliRunner().invoke(app, ["logs", str(run.path), "train"])
    assert done.stdout == "second attempt\n"


def test_output_and_error_output_are_both_shown(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["logs", str(make_run(tmp_path).path), "train"])
    assert done.stdout == "step 7 done\na warning\n"


def test_an_unknown_role_is_refused_with_those_that_exist(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["logs", str(make_run(tmp_path).path), "critic"])
    assert isinstance(done.exception, UsageError)
    assert "there are: train" in str(done.exception)
