"""`rods logs`: what a role wrote, in which attempt, and what it goes on to write."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner
from watch_examples import make_run

from rods.cli import app
from rods.commands.common import UsageError
from rods.exchange.rundir import RunDir
from rods.watch.logs import Follower, find, last_lines, names, newest, of_role


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


def run_with_logs(tmp_path: Path) -> RunDir:
    """Two attempts of a run whose daemons have jobs of their own."""
    run = RunDir.create(tmp_path, "logged", "0" * 64)
    texts = {
        "0001/train.out": "first\n",
        "0001/slurm-4711.err": "srun: error\n",
        "0002/train.out": "second\n",
        "0002/train-1.out": "rank 1\n",
        "0002/server-Qwen3.log": "ready\n",
        "0002/supervisor.out": "half a line",
        "synthesis-1/0001/synthesis-1.out": "daemon 1\n",
        "synthesis-1/0001/slurm-4712.out": "its batch script\n",
        "0002/outcome.json": "{}",
        "notes/x.out": "a person's\n",
    }
    for name, text in texts.items():
        path = run.attempts / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return run


def logs_of(run: RunDir, *arguments: str) -> str:
    """What `rods logs` prints."""
    done = CliRunner().invoke(app, ["logs", str(run.path), *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_what_can_be_asked_for_is_known_by_name_not_by_job(tmp_path: Path) -> None:
    assert names(find(run_with_logs(tmp_path))) == [
        "server-Qwen3",
        "slurm",
        "supervisor",
        "synthesis-1",
        "train",
        "train-1",
    ]


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["supervisor"], "half a line"),
        (["server"], "ready\n"),
        (
            ["slurm"],
            "==> 0001/slurm-4711.err <==\nsrun: error\n"
            "==> synthesis-1/0001/slurm-4712.out <==\nits batch script\n",
        ),
        (["train", "--attempt", "1"], "first\n"),
        (["train"], "==> 0002/train.out <==\nsecond\n==> 0002/train-1.out <==\nrank 1\n"),
        (["synthesis"], "daemon 1\n"),
        (["train-1", "--all"], "rank 1\n"),
    ],
)
def test_a_name_stands_for_what_begins_with_it(tmp_path: Path, arguments: list[str], printed: str) -> None:
    assert logs_of(run_with_logs(tmp_path), *arguments) == printed


def test_all_attempts_come_in_their_order(tmp_path: Path) -> None:
    text = logs_of(run_with_logs(tmp_path), "train", "--all")
    assert text.index("first") < text.index("second") < text.index("rank 1")


def test_an_attempt_without_the_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'server' in attempt 1"):
        logs_of(run_with_logs(tmp_path), "server", "--attempt", "1")


def test_json_names_attempt_and_file_of_each_line(tmp_path: Path) -> None:
    lines = logs_of(run_with_logs(tmp_path), "train", "--all", "--json").splitlines()
    assert json.loads(lines[0]) == {"attempt": 1, "file": "0001/train.out", "line": "first"}
    assert len(lines) == 3


@pytest.mark.parametrize(("count", "kept"), [(None, b"a\nb\nc"), (2, b"b\nc"), (0, b""), (9, b"a\nb\nc")])
def test_only_the_last_lines_are_kept(count: int | None, kept: bytes) -> None:
    assert last_lines(b"a\nb\nc", count) == kept


def test_only_what_is_new_is_given_and_half_a_line_waits_once(tmp_path: Path) -> None:
    path, follower = tmp_path / "x.out", Follower()
    assert follower.news(path) == b"", "it appears late"
    path.write_bytes(b"one\ntwo")
    assert follower.news(path) == b"one\n"
    assert follower.news(path) == b"two"
    assert follower.news(path) == b""
    with path.open("ab") as file:
        file.write(b" and\nthree\n")
    assert follower.news(path) == b" and\nthree\n"


def test_a_file_that_was_cut_or_replaced_is_read_from_its_beginning(tmp_path: Path) -> None:
    path, follower = tmp_path / "x.out", Follower()
    path.write_bytes(b"long enough\n")
    follower.news(path)
    path.write_bytes(b"cut\n")
    assert follower.news(path) == b"cut\n"
    (tmp_path / "new").write_bytes(b"rotated in its place\n")
    os.replace(tmp_path / "new", path)
    assert follower.news(path) == b"rotated in its place\n"


def test_newest_is_chosen_by_series(tmp_path: Path) -> None:
    found = newest(find(run_with_logs(tmp_path)))
    assert {(log.series, log.attempt) for log in found} == {("", 2), ("synthesis-1", 1)}
    assert of_role(found, "syn") == []


def test_following_shows_late_files_of_later_attempts_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    run = run_with_logs(tmp_path)
    code = "import sys; from rods.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "logs", str(run.path), "train", "-f"], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(4)][1] == b"second\n"
    late = run.attempts / "0003" / "train.err"
    late.parent.mkdir()
    late.write_text("third\n")
    assert process.stdout.readline() == b"==> 0003/train.err <==\n"
    assert process.stdout.readline() == b"third\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0
