"""`rods` from another shell: it reads the run directory and answers at once."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner
from watch_examples import make_run

from rods.cli import app, main
from rods.commands.common import UsageError, begins_a_run, find_run
from rods.exchange.rundir import NotARunDirError, RunDir


def test_status_as_json_is_the_state(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    done = CliRunner().invoke(app, ["status", str(run.path), "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["step"] == 8


def test_status_shows_what_a_person_looks_for(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["status", str(make_run(tmp_path).path)])
    for part in (
        "8 of 20",
        "0.438",
        "hard 3 boundary 7 mastered 2",
        "52 (48 seeds, 4 variants), 1 waiting",
        "0.500",
    ):
        assert part in done.stdout


def test_status_watch_ends_with_the_run(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    outcome = {"status": "failed", "exit_code": 1, "sentence": "the role train was killed by SIGKILL"}
    (run.attempt_dir(1) / "outcome.json").write_text(json.dumps(outcome))
    done = CliRunner().invoke(app, ["status", str(run.path), "--watch"])
    assert done.exit_code == 0
    assert "the role train was killed by SIGKILL" in done.stdout


@pytest.mark.parametrize("columns", ["0", "1", "many"])
def test_a_terminal_of_an_odd_width_is_written_to(tmp_path: Path, columns: str) -> None:
    run = make_run(tmp_path)
    command = [sys.executable, "-c", "from rods.cli import main; main()", "status", str(run.path)]
    done = subprocess.run(
        command, env={**os.environ, "COLUMNS": columns}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip()


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["status", str(tmp_path)])
    assert isinstance(done.exception, NotARunDirError)


def test_latest_is_the_newest_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="found none"):
        find_run("latest")
    runs = [RunDir.create(Path("runs"), "same", "0" * 64) for _ in range(3)]
    assert find_run("latest").resolve() == runs[-1].path
    assert find_run("runs/other") == Path("runs/other")
    assert find_run(runs[0].path.name[:-1]).resolve() == runs[0].path
    assert begins_a_run(runs[0].path.name[:-1])
    assert not begins_a_run("other/same")


def test_a_policy_may_be_named_by_the_beginning_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = RunDir.create(Path("runs"), "begun", "0" * 64)
    done = CliRunner().invoke(app, ["evaluate", "begun", "--suite", "scripted"])
    # It has no policy yet, and the refusal is about the run, not about a model of that name.
    assert done.exit_code != 0
    assert run.path.name in str(done.exception) + done.output


def test_a_policy_that_is_nowhere_is_said_to_be_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["evaluate", "nothere", "--suite", "scripted"])
    said = str(done.exception)
    assert said.startswith("POLICY = nothere: no run under ./runs, no folder, no cached model. ")
    assert "hf download" not in said


def rods(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    code = "import sys; from rods.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_a_refusal_is_a_message_with_status_2(tmp_path: Path) -> None:
    done = rods("status", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("rods: not a RODS run directory")
    assert "Traceback" not in done.stderr


def test_status_of_a_damaged_run_shows_the_rest_and_exits_with_2(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    shutil.rmtree(run.path / "queues")
    (run.path / "queues").write_text("no folder")
    done = CliRunner().invoke(app, ["status", str(run.path)])
    assert done.exit_code == 2
    assert "8 of 20" in done.stdout
    assert "cannot be read" in done.stdout


@pytest.mark.parametrize("content", ["", "a: [", "- a\n", "17"])
def test_report_of_a_run_with_a_damaged_configuration_is_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    run = make_run(tmp_path)
    run.config_file.write_text(content)
    monkeypatch.setattr(sys, "argv", ["rods", "report", str(run.path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("rods: ")


def test_a_name_longer_than_a_file_name_may_be_is_a_message(tmp_path: Path) -> None:
    done = rods("status", "x" * 300, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("rods: ")
    assert "Traceback" not in done.stderr


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    assert re.fullmatch(r"rods \d+\.\d+\.\d+\n", rods("--version", cwd=tmp_path).stdout)


@pytest.mark.parametrize(
    "arguments",
    [
        ["status", "RUN"],
        ["ls", "--runs", "RUNS"],
        ["logs", "RUN", "train"],
        ["cost", "RUN"],
        ["cancel", "RUN"],
        ["clean", "--runs", "RUNS", "--older", "9"],
        ["resume", "--help"],
        ["doctor", "--help"],
        ["--help"],
    ],
)
def test_looking_at_runs_imports_nothing_heavy(tmp_path: Path, arguments: list[str]) -> None:
    run = make_run(tmp_path)
    role = {"nodes": 1, "gpus_per_node": 0}
    cluster = {"kind": "slurm", "time_hours": 1, "train": role, "synthesis": role}
    run.config_file.write_text(json.dumps({"cluster": cluster, "synthesis": {"enabled": True}}))
    places = {"RUN": str(run.path), "RUNS": str(run.path.parent)}
    words = [places.get(word, word) for word in arguments]
    heavy = ("torch", "transformers", "hydra", "matplotlib", "submitit", "numpy", "openai", "wandb")
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom rods.cli import app\n"
        f"done = CliRunner().invoke(app, {words!r}, catch_exceptions=False)\nassert done.exit_code == 0, done.output\n"
        f"print([m for m in {heavy!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        yield (*path, name), command
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))


def test_every_command_says_what_it_and_each_of_its_settings_is_for() -> None:
    silent = []
    for path, command in _commands(typer.main.get_command(app)):
        silent += [] if command.help else [" ".join(path)]
        silent += [f"{' '.join(path)} {each.name}" for each in command.params if not each.help]
    assert silent == []


def test_a_flag_is_not_shown_as_if_it_took_a_value() -> None:
    for path, command in _commands(typer.main.get_command(app)):
        flags = [each for each in command.params if getattr(each, "is_flag", False) and each.name != "help"]
        shown = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "200"}).stdout
        assert shown.count("<bool>") <= 1, path  # of --help, which is typer's own
        assert all(f"--{each.opts[-1].lstrip('-')}" in shown for each in flags), path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the command is called in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_a_run_the_newest_is_meant(here: Path) -> None:
    make_run(here)
    assert "step 7 done" in CliRunner().invoke(app, ["logs"]).stdout
    assert CliRunner().invoke(app, ["events"]).exit_code == 0
    refused = CliRunner().invoke(app, ["resume", "model.dtype=float32"]).exception
    assert "expected KEY=VALUE with a key of launch" in str(refused), (
        "it was taken for a setting, not for a run"
    )
    assert "'RUN'" in CliRunner().invoke(app, ["cancel"]).stderr, "what ends a run must be told which"


@pytest.mark.parametrize("command", ["status", "logs", "fsck"])
def test_a_name_that_no_run_has_says_where_the_runs_are_listed(here: Path, command: str) -> None:
    make_run(here)
    done = CliRunner().invoke(app, [command, "nosuchrun"])
    assert isinstance(done.exception, UsageError)
    assert "no run under runs begins so" in str(done.exception)
    assert "rods ls" in str(done.exception)


@pytest.mark.usefixtures("here")
def test_a_folder_without_runs_is_no_error() -> None:
    done = CliRunner().invoke(app, ["ls"])
    assert (done.exit_code, done.stdout) == (0, "no runs yet in ./runs; --runs names another folder\n")
    assert json.loads(CliRunner().invoke(app, ["ls", "--json"]).stdout) == []
