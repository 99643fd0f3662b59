"""All runs at a glance, and what they cost: one question to Slurm, a damaged run in a line of its own."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from rich.console import Console
from slurm_answers import FakeSlurm
from typer.testing import CliRunner
from watch_examples import STEP, make_run, submitted

from launchers.cost import ACCOUNTING, DIRECTORY
from launchers.scheduler import Scheduler
from rods.cli import app
from rods.commands.common import UsageError
from rods.exchange.heartbeat import Heartbeat
from rods.exchange.metrics import MetricsWriter
from rods.exchange.rundir import RunDir
from rods.watch import spending
from rods.watch.listing import Line, list_runs
from rods.watch.listing_table import table


def configured(run: RunDir, gpus: int = 8, time_hours: float = 56.0) -> RunDir:
    """Freeze what the account reads of a configuration."""
    role = {"nodes": 1, "gpus_per_node": gpus}
    cluster = {"kind": "slurm", "time_hours": time_hours, "train": role, "synthesis": role}
    run.config_file.write_text(yaml.safe_dump({"cluster": cluster, "synthesis": {"enabled": True}}))
    return run


def test_every_run_has_a_line_and_slurm_is_asked_once(tmp_path: Path) -> None:
    for job in ("3", "5", "6"):
        submitted(configured(make_run(tmp_path)), job, "train", "synthesis", coschedule="single")
    slurm = FakeSlurm()
    lines = list_runs(tmp_path / "runs", Scheduler(slurm))
    assert [line.status for line in lines] == ["failed", "running", "waiting"]
    assert [line.jobs for line in lines] == [(), ("5",), ("6",)]
    assert [command for command, _ in slurm.asked] == ["squeue", "sacct"]
    assert lines[0].gpu_hours == pytest.approx(16 / 3600)
    assert (lines[0].step, lines[0].steps_total, lines[0].reward) == (8, 20, 0.4375)


def test_damaged_and_half_made_runs_have_lines_too(tmp_path: Path) -> None:
    whole, torn, bare, odd = (configured(make_run(tmp_path)) for _ in range(4))
    torn.manifest.write_text("{")
    shutil.rmtree(bare.path)
    bare.path.mkdir()
    bare.manifest.write_text("{}")
    (odd.path / "jobs.jsonl").write_text("[1]\n")
    lines = {line.name: line for line in list_runs(tmp_path / "runs", Scheduler(FakeSlurm()))}
    assert lines[whole.name].status == "running"
    assert lines[torn.name].status == "damaged"
    assert "damaged JSON" in lines[torn.name].trouble
    assert (lines[bare.name].status, lines[bare.name].gpu_hours) == ("waiting", None)
    assert "jobs.jsonl" in lines[odd.name].trouble


def shown(lines: list[Line], width: int) -> list[str]:
    """The list as a terminal of so many columns shows it, without the blanks at the lines' ends."""
    console = Console(record=True, width=width, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(table(lines, width))
    return [row.rstrip() for row in console.export_text().splitlines()]


def test_the_list_fits_the_terminal(tmp_path: Path) -> None:
    run = configured(make_run(tmp_path))
    submitted(run, "5", "train")
    rows = shown(list_runs(tmp_path / "runs", Scheduler(FakeSlurm())), 80)
    assert max(map(len, rows)) <= 80
    for part in (run.name, "running", "8/20", "0.438"):
        assert part in rows[1]


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (120, ["run", "state", "try", "step", "reward", "age", "jobs", "GPU-h"]),
        (80, ["run", "state", "step", "reward"]),
        (66, ["run", "state"]),
    ],
)
def test_other_columns_make_room_for_a_whole_name(width: int, columns: list[str]) -> None:
    name = "rods_envtuning_tiny-no_retirement-00843b4b-69krxy"
    line = Line(name, "", "finished", 12, 12, 24, 0.5, 3600.0, ("12", "13"), 1.5)
    rows = shown([line, replace(line, name="short")], width)
    assert rows[0].split() == columns
    assert rows[1].startswith(name + "  ")
    assert max(map(len, rows)) <= width


def test_a_name_wider_than_the_terminal_is_folded_never_cut() -> None:
    name = "a" * 50
    rows = shown([Line(name, "", "finished")], 30)
    assert "".join(row.split()[0] for row in rows[1:]) == name
    assert "finished" in rows[1]


def test_the_list_as_json(tmp_path: Path) -> None:
    run = configured(make_run(tmp_path), gpus=0)
    done = CliRunner().invoke(app, ["ls", "--runs", str(tmp_path / "runs"), "--json"], catch_exceptions=False)
    (line,) = json.loads(done.stdout)
    assert (line["name"], line["status"], line["gpu_hours"]) == (run.name, "running", 0.0)


def test_no_folder_is_refused_and_an_empty_one_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected a folder with runs"):
        CliRunner().invoke(app, ["ls", "--runs", str(tmp_path / "none")], catch_exceptions=False)
    done = CliRunner().invoke(app, ["ls", "--runs", str(tmp_path)])
    assert done.stdout.strip() == f"no runs yet in {tmp_path}; --runs names another folder"


def test_accounting_is_read_where_it_knows_the_jobs(tmp_path: Path) -> None:
    run = configured(make_run(tmp_path))
    submitted(run, "1", "train", "synthesis")
    found = spending.read(run, Scheduler(FakeSlurm()))
    assert (found.source, found.trouble) == (ACCOUNTING, "")
    assert found.roles["synthesis"].used == pytest.approx(8 * 5 / 3600)
    assert found.roles["train"].planned == 448


def test_without_accounting_the_files_times_are_read_and_it_is_said(tmp_path: Path) -> None:
    run = configured(RunDir.create(tmp_path, "r", "0" * 64))
    submitted(run, "5", "train", "synthesis")
    for number, (begin, end) in enumerate([(1000.0, 4600.0), (5000.0, 6800.0)], start=1):
        folder = run.attempt_dir(run.next_attempt())
        for name, moment in (("start", begin), ("train.out", end)):
            (folder / name).write_text(f"attempt {number}")
            os.utime(folder / name, (moment, moment))
        late = run.attempt_dir(1) / "slurm-5.out"  # the batch script of a later start logs here, too
        late.write_text("")
    writer = MetricsWriter(run.metrics / "train.jsonl")
    for step, moment in ((1, 2800.0), (2, 4600.0), (2, 5900.0)):
        writer.write({**STEP, "step": step, "time": moment})
    found = spending.read(run, Scheduler(FakeSlurm(None, None)))
    assert found.source == DIRECTORY
    assert "sacct failed" in found.trouble
    assert (found.attempts, found.roles["train"].hours) == (2, 1.5)
    # The second attempt went on from step 1, and nothing of its own was saved.
    assert found.roles["train"].wasted == pytest.approx(8 * (1800 + 1800) / 3600)


def test_an_attempt_at_work_goes_on(tmp_path: Path) -> None:
    run = configured(make_run(tmp_path))
    Heartbeat(run.heartbeats, "train").beat("rollout")
    (span, _) = spending.spans_of_directory(run, {"train": 8, "synthesis": 8})
    assert span.end is None
    Heartbeat(run.heartbeats, "train").finish()
    assert spending.spans_of_directory(run, {"train": 8})[0].end is not None
