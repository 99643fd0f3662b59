"""The panel of a run: it fits the terminal, loses nothing, and says what it does not know."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from slurm_answers import FakeSlurm
from watch_examples import STEP, make_run, submitted

from launchers.scheduler import Scheduler
from rods.exchange import stop
from rods.exchange.metrics import MetricsWriter
from rods.exchange.rundir import RunDir
from rods.watch.listing import list_runs
from rods.watch.listing_table import table
from rods.watch.render import line, panel
from rods.watch.state import RunState, read_state


def slurm(squeue: str | None = None, sacct: str | None = None) -> Scheduler:
    """A scheduler with these answers; None: the recorded ones."""
    answers = {"squeue": squeue, "sacct": sacct}
    return Scheduler(FakeSlurm(**{name: text for name, text in answers.items() if text is not None}))


def drawn(state: RunState, width: int) -> str:
    """The panel as text."""
    console = Console(record=True, width=width, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(panel(state, width=width))
    return console.export_text()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_panel_fits_the_terminal_and_loses_nothing(tmp_path: Path, width: int) -> None:
    run = make_run(tmp_path)
    submitted(run, "1", "train", "synthesis")
    submitted(run, "6", "synthesis", replica=1)
    text = drawn(read_state(run, slurm()), width)
    assert max(map(len, text.splitlines())) <= width
    for part in (
        "8 of 20",
        "0.438",
        "1+0",
        "1+1",
        "synthesis-1",
        "waits for",
        "n1",
        "360 steps/h",
        "0.500 greedy",
    ):
        assert part in text


def test_a_total_that_may_change_is_marked_wherever_it_is_shown(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    MetricsWriter(run.metrics / "train.jsonl").write(
        {**STEP, "step": 9, "time": 1090.0, "steps_estimated": True}
    )
    state = read_state(run)
    assert "9 of ~20" in drawn(state, 80)
    assert "step 9/~20 |" in line(state)
    (listed,) = list_runs(run.path.parent, slurm())
    console = Console(record=True, width=100, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(table([listed], 100))
    assert "9/~20" in console.export_text()


def test_a_run_that_has_ended_has_no_pace(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    stop.finish(run, 1)
    text = drawn(read_state(run), 100)
    assert "8 of 20" in text
    assert "eta" not in text
    assert "steps/h" not in text
    assert "eta" not in line(read_state(run))


def test_many_jobs_are_shortened_and_counted(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    for number in range(20):
        submitted(run, str(100 + number), "train")
    text = drawn(read_state(run, slurm("", "")), 100)
    assert "and 14 more" in text


def test_of_jobs_that_are_all_over_the_newest_is_shown(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    submitted(run, "3", "train")
    submitted(run, "4", "train")
    submitted(run, "3", "synthesis", replica=1)
    text = drawn(read_state(run, slurm()), 100)
    assert "completed" in text, "the newest with the trainer in it"
    assert "and 2 more" in text


def test_before_the_first_step_nothing_is_made_up(tmp_path: Path) -> None:
    text = drawn(read_state(RunDir.create(tmp_path, "new", "0" * 64)), 80)
    assert "none yet" in text
    assert "reward" not in text


def test_a_role_without_a_heartbeat_is_told_as_what_it_is(tmp_path: Path) -> None:
    state = read_state(RunDir.create(tmp_path, "new", "0" * 64))
    assert "no role has started" in drawn(state, 80)
    running = replace(state, status="running")
    for text in (drawn(running, 80), line(running)):
        assert "starting, none has reported yet" in text
        assert "no role" not in text


def test_why_slurm_is_silent_is_said_once_for_all_jobs(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    for job in ("5", "6", "7"):
        submitted(run, job, "train")
    text = drawn(read_state(run, Scheduler(FakeSlurm(None, None))), 110)
    assert text.count("squeue failed") == 1
    assert text.count("unknown") == 3


def test_what_is_damaged_is_told_below_the_rest(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    shutil.rmtree(run.path / "queues")
    (run.path / "queues").write_text("no folder")
    text = drawn(read_state(run, slurm()), 100)
    assert "cannot be read" in text
    assert "8 of 20" in text
