"""The list of a run's Slurm jobs: what is written is read, whatever a killed writer or a hand left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from launchers.errors import LaunchError
from launchers.jobs import SubmittedJob, file_of, read, record
from rods.errors import RodsError
from rods.exchange.rundir import RunDir

HET = SubmittedJob("4711", ("train", "synthesis"), "het", 1, 1e9, {"train": 8, "synthesis": 8})
EXTRA = SubmittedJob("4712", ("synthesis",), "pair", 2, 2e9, {"synthesis": 4}, replica=3)


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir.create(tmp_path, "x", "0" * 64)


def test_a_run_that_was_never_submitted_has_no_jobs(run: RunDir) -> None:
    assert read(run) == []


def test_jobs_are_read_in_the_order_of_their_submission(run: RunDir) -> None:
    record(run, HET)
    record(run, EXTRA)
    assert read(run) == [HET, EXTRA]


def test_a_line_that_a_killed_launcher_left_half_written_is_no_job(run: RunDir) -> None:
    record(run, HET)
    with file_of(run).open("ab") as file:
        file.write(b'{"job_id": "47')
    assert read(run) == [HET]
    record(run, EXTRA)
    assert read(run) == [HET, EXTRA]


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "[1]",
        "no json",
        '{"job_id": 1, "roles": 5, "coschedule": "het", "attempt": 1, "time": 1, "gpus": {}, "replica": null}',
        '{"job_id": 1, "roles": [], "coschedule": "x", "attempt": "x", "time": 1, "gpus": {}, "replica": null}',
        '{"job_id": 1, "roles": [], "coschedule": "x", "attempt": 1, "time": 1, "gpus": [], "replica": null}',
    ],
)
def test_a_line_that_is_no_job_is_named(run: RunDir, line: str) -> None:
    record(run, HET)
    with file_of(run).open("a") as file:
        file.write(line + "\n")
    with pytest.raises(RodsError, match=r"jobs\.jsonl(:|, line )2"):
        read(run)


def test_what_is_wrong_with_a_line_is_said(run: RunDir) -> None:
    file_of(run).write_text('{"job_id": "1"}\n')
    with pytest.raises(LaunchError, match=r"expected a submitted job, found .*replica"):
        read(run)
