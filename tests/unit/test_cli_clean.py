"""`rods clean`: what may go goes, a run that lives stays, and nothing outside of the runs folder is touched."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from slurm_answers import FakeSlurm
from typer.testing import CliRunner
from watch_examples import make_run, submitted

from launchers.scheduler import Scheduler
from rods.cli import app
from rods.exchange import owner, stop
from rods.exchange.rundir import RunDir
from rods.watch import removal
from rods.watch.removal import RemovalError

DAY = 86400.0


def ended(tmp_path: Path, status: str, idle_days: float = 10.0) -> RunDir:
    """A run in tmp_path/runs that ended so, that long ago."""
    run = make_run(tmp_path)
    outcome = {"status": status, "exit_code": 0, "sentence": "it ended"}
    (run.attempt_dir(1) / "outcome.json").write_text(json.dumps(outcome))
    for path in [*run.path.rglob("*"), run.path]:
        moment = path.stat().st_mtime - idle_days * DAY
        os.utime(path, (moment, moment))
    return run


def clean(tmp_path: Path, *arguments: str, answer: str = "y\n") -> tuple[int, str]:
    """Exit status and output of `rods clean` in tmp_path/runs."""
    command = ["clean", "--runs", str(tmp_path / "runs"), *arguments]
    done = CliRunner().invoke(app, command, input=answer, catch_exceptions=False)
    return done.exit_code, done.output


def left(tmp_path: Path) -> set[str]:
    """The names in tmp_path/runs."""
    return {path.name for path in (tmp_path / "runs").iterdir()}


def test_ended_runs_go_and_others_stay(tmp_path: Path) -> None:
    runs = {status: ended(tmp_path, status) for status in ("finished", "failed", "stopped", "interrupted")}
    alive = make_run(tmp_path)
    status, said = clean(tmp_path, "--older", "5")
    assert status == 0
    assert left(tmp_path) == {runs["stopped"].name, runs["interrupted"].name, alive.name}
    assert f"kept    {alive.name}: running" in said
    assert "removed 2 run(s)" in said
    assert clean(tmp_path, "--older", "0", "--unfinished", "--yes")[0] == 0
    assert left(tmp_path) == {alive.name}


def test_a_run_that_slurm_will_start_again_stays(tmp_path: Path) -> None:
    run = ended(tmp_path, "failed")
    submitted(run, "6", "train")
    plan = removal.plan(tmp_path / "runs", [], 0, True, Scheduler(FakeSlurm()))
    assert [kept.reason for kept in plan.kept] == ["job 6 has not ended"]
    assert plan.removable == ()


def test_a_finished_run_whose_last_processes_are_at_work_stays(tmp_path: Path) -> None:
    by_job, by_process = ended(tmp_path, "finished"), ended(tmp_path, "finished")
    submitted(by_job, "5", "train")
    stop.finish(by_job, 1)
    owner.take(by_process, 300)
    plan = removal.plan(tmp_path / "runs", [], 0, True, Scheduler(FakeSlurm()))
    assert {kept.reason for kept in plan.kept} == {
        "job 5 has not ended",
        f"process {os.getpid()} still follows it",
    }


def test_without_slurms_answer_a_run_with_jobs_stays_and_one_whose_jobs_left_the_queue_goes(
    tmp_path: Path,
) -> None:
    run = ended(tmp_path, "failed")
    submitted(run, "6", "train")
    plan = removal.plan(tmp_path / "runs", [], 0, True, Scheduler(FakeSlurm(None, None)))
    assert [kept.reason for kept in plan.kept] == ["job 6 has not ended"]
    without_accounting = Scheduler(FakeSlurm("", None))
    assert removal.plan(tmp_path / "runs", [], 0, True, without_accounting).kept == ()


def test_age_is_counted_from_the_last_write(tmp_path: Path) -> None:
    old, young = ended(tmp_path, "finished", 40), ended(tmp_path, "finished", 3)
    clean(tmp_path, "--older", "30", "--yes")
    assert left(tmp_path) == {young.name}
    assert not old.path.exists()


def test_what_a_killed_removal_left_goes_with_the_next_one(tmp_path: Path) -> None:
    alive, runs = make_run(tmp_path), tmp_path / "runs"
    outside = tmp_path / "outside"
    outside.mkdir()
    (runs / ".removed-old-00843b4b-69krxy-4711" / "code").mkdir(parents=True)
    (runs / ".removed-by-hand").mkdir()
    (runs / ".removed-link-1").symlink_to(outside)
    status, said = clean(tmp_path, "--older", "1", "--dry-run")
    assert (status, ".removed-old-00843b4b-69krxy-4711: an earlier removal" in said) == (0, True)
    assert ".removed-old-00843b4b-69krxy-4711" in left(tmp_path)
    assert clean(tmp_path, "--older", "1", answer="")[0] == 0
    assert left(tmp_path) == {alive.name, ".removed-by-hand", ".removed-link-1"}
    assert outside.is_dir()


def test_it_asks_and_no_is_no(tmp_path: Path) -> None:
    run = ended(tmp_path, "finished")
    status, said = clean(tmp_path, run.name, answer="n\n")
    assert (status, "for good?" in said, "nothing was removed" in said) == (0, True, True)
    assert left(tmp_path) == {run.name}


def test_a_dry_run_removes_nothing_and_json_lists_all(tmp_path: Path) -> None:
    gone, alive = ended(tmp_path, "finished"), make_run(tmp_path)
    found = json.loads(clean(tmp_path, "--older", "1", "--dry-run", "--json")[1])
    assert [item["name"] for item in found["removable"]] == [gone.name]
    assert [item["name"] for item in found["kept"]] == [alive.name]
    assert (found["removed"], found["dry_run"]) == ([], True)
    assert left(tmp_path) == {gone.name, alive.name}


def test_a_named_run_that_lives_is_kept_and_the_status_says_so(tmp_path: Path) -> None:
    alive = make_run(tmp_path)
    assert clean(tmp_path, alive.name, "--yes", "--unfinished")[0] == 1
    assert left(tmp_path) == {alive.name}


@pytest.mark.parametrize("name", ["..", ".", "", "../outside", "/etc", "run/../../outside", "a\0b"])
def test_a_path_is_refused(tmp_path: Path, name: str) -> None:
    ended(tmp_path, "finished")
    with pytest.raises(RemovalError, match="expected the name of a run"):
        removal.plan(tmp_path / "runs", [name], None, False)


def test_links_are_refused_and_what_they_lead_to_stays(tmp_path: Path) -> None:
    elsewhere = ended(tmp_path / "elsewhere", "finished")
    run = ended(tmp_path, "finished")
    (tmp_path / "runs" / "linked").symlink_to(elsewhere.path)
    with pytest.raises(RemovalError, match="found a link"):
        clean(tmp_path, "linked", "--yes")
    (run.path / "wandb" / "data").symlink_to(elsewhere.path)
    clean(tmp_path, "--older", "0", "--yes")
    assert left(tmp_path) == {"linked"}
    assert elsewhere.manifest.exists()


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    ended(tmp_path, "finished")
    (tmp_path / "runs" / "data").mkdir()
    for name in ("data", "nothing"):
        with pytest.raises(RemovalError, match="found no run"):
            clean(tmp_path, name, "--yes")
    assert "data" in left(tmp_path)


def test_a_run_with_a_mount_point_inside_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, table = ended(tmp_path, "finished"), tmp_path / "mountinfo"
    point = str((run.path / "checkpoints").resolve())
    table.write_text(f"36 35 98:0 / {point} rw,noatime shared:1 - ext4 /dev/sdb rw\n")
    monkeypatch.setattr(removal, "MOUNTS", table)
    with pytest.raises(RemovalError, match="a mount point"):
        clean(tmp_path, run.name, "--yes")
    assert "a mount point" in clean(tmp_path, "--older", "0", "--yes")[1]
    assert left(tmp_path) == {run.name}


@pytest.mark.parametrize("idle_days", [10.0, 0.0])
def test_a_run_that_was_taken_up_again_while_it_was_asked_stays(tmp_path: Path, idle_days: float) -> None:
    run = ended(tmp_path, "finished", idle_days)
    plan = removal.plan(tmp_path / "runs", [run.name], None, False)
    (run.attempts / "0002").mkdir()
    (run.attempts / "0002" / "train.out").write_text("resumed\n")
    with pytest.raises(RemovalError, match="written to just now"):
        removal.remove(plan)
    assert left(tmp_path) == {run.name}


def test_neither_names_nor_age_is_refused(tmp_path: Path) -> None:
    ended(tmp_path, "finished")
    with pytest.raises(RemovalError, match="found neither"):
        clean(tmp_path)


def test_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RemovalError, match="expected a folder with runs"):
        clean(tmp_path, "--older", "1")
