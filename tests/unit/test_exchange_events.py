"""`rods events`: the journal as text, followed while it is written, over attempts and torn tails."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rods.cli import app
from rods.commands.common import UsageError
from rods.exchange.frames import frame
from rods.exchange.journal import JournalCorruptError, JournalWriter
from rods.exchange.lineage import continuation
from rods.exchange.rundir import RunDir

STARTED = {"name": "epoch_started", "step": 0, "epoch": 1, "active": 4}
SEEN = {"name": "group_observed", "step": 1, "epoch": 1, "task_id": "a ü", "rewards": [0.0, 1.0]}
LATER = {"name": "epoch_finished", "step": 2, "epoch": 1}


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    made = RunDir.create(tmp_path, "told", "0" * 64)
    with JournalWriter(made.journal_file("train", 1)) as journal:
        journal.append_many([continuation(0)])
        journal.append_many([STARTED, SEEN])
    return made


def test_events_are_lines_and_objects(run: RunDir) -> None:
    done = CliRunner().invoke(app, ["events", str(run.path)])
    assert done.stdout.splitlines() == [
        "step 0      epoch 1   epoch_started     active=4",
        'step 1      epoch 1   group_observed    task_id="a ü" rewards=[0.0, 1.0]',
    ]
    done = CliRunner().invoke(app, ["events", str(run.path), "--json", "--name", "group_observed"])
    assert [json.loads(line) for line in done.stdout.splitlines()] == [SEEN]


def test_a_fraction_is_rounded_for_the_eye_alone(run: RunDir) -> None:
    measured = {
        **LATER,
        "mean": 0.5267361111111111,
        "by_type": {"base": [2 / 3, 12345678]},
        "sum": 12345.6789,
    }
    with JournalWriter(run.journal_file("train", 2)) as journal:
        journal.append_many([continuation(0), measured])
    line = CliRunner().invoke(app, ["events", str(run.path)]).stdout.splitlines()[-1]
    assert line.endswith('mean=0.5267 by_type={"base": [0.6667, 12345678]} sum=12345.679')
    done = CliRunner().invoke(app, ["events", str(run.path), "--json"])
    assert json.loads(done.stdout.splitlines()[-1])["mean"] == 0.5267361111111111


def test_of_the_scores_of_hundreds_of_tasks_a_line_tells_the_number(run: RunDir) -> None:
    scores = {f"task_{place}": 0.5 for place in range(300)}
    with JournalWriter(run.journal_file("train", 2)) as journal:
        journal.append_many([continuation(0), {**LATER, "scores": scores}])
    done = CliRunner().invoke(app, ["events", str(run.path)])
    assert done.stdout.splitlines()[-1].endswith("scores=<300 values>")
    done = CliRunner().invoke(app, ["events", str(run.path), "--json"])
    assert json.loads(done.stdout.splitlines()[-1])["scores"] == scores


@pytest.mark.parametrize(("count", "shown"), [("0", 0), ("1", 1), ("9", 2)])
def test_only_the_last_lines_are_shown_where_a_number_is_given(run: RunDir, count: str, shown: int) -> None:
    done = CliRunner().invoke(app, ["events", str(run.path), "--json", "-n", count])
    assert [json.loads(line) for line in done.stdout.splitlines()] == [STARTED, SEEN][2 - shown :]


def test_a_name_that_no_event_has_is_refused(run: RunDir) -> None:
    done = CliRunner().invoke(app, ["events", str(run.path), "--name", "rewards"])
    assert isinstance(done.exception, UsageError)
    assert "expected one of run_started" in str(done.exception)


def test_torn_and_cut_tails_are_told(run: RunDir) -> None:
    path = run.journal_file("train", 1)
    with path.open("ab") as stream:
        stream.write(frame(LATER)[:-5])
    done = CliRunner().invoke(app, ["events", str(run.path)])
    assert len(done.stdout.splitlines()) == 2
    assert "bytes of a record that is not whole" in done.stderr
    JournalWriter(path).close()
    done = CliRunner().invoke(app, ["events", str(run.path)])
    assert "were cut; they are kept in train-0001.log.torn" in done.stderr
    assert "not whole" not in done.stderr


def test_damage_is_an_error_that_names_the_place(run: RunDir) -> None:
    path = run.journal_file("train", 1)
    end = path.stat().st_size
    with path.open("ab") as stream:
        stream.write(b"x" * 40)
    done = CliRunner().invoke(app, ["events", str(run.path)])
    assert isinstance(done.exception, JournalCorruptError)
    assert f"{path} is damaged at byte {end}" in str(done.exception)


def test_what_is_added_is_followed_and_what_an_attempt_leaves_behind_is_said(run: RunDir) -> None:
    command = [sys.executable, "-c", "from rods.cli import main; main()", "events", str(run.path), "-f"]
    follower = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert follower.stdout is not None
    guard = threading.Timer(60, follower.kill)
    guard.start()
    try:
        lines = [follower.stdout.readline() for _ in range(2)]
        with JournalWriter(run.journal_file("train", 2)) as journal:
            journal.append_many([continuation(1)])
            journal.append_many([LATER])
        lines += [follower.stdout.readline() for _ in range(2)]
    finally:
        guard.cancel()
        follower.kill()
        follower.wait()
        follower.stdout.close()
    names = [line.split()[4] if line.startswith("step") else line.strip() for line in lines]
    assert names[:2] == ["epoch_started", "group_observed"]
    assert set(names[2:]) == {
        "rods: an attempt goes on from record 1: the last 1 events no longer count",
        "epoch_finished",
    }
