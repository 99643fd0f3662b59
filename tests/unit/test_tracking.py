"""What W&B is given, read back from its offline files: identity over attempts, live synthesis, tables, artifacts."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from analysis_examples import history, make_run
from typer.testing import CliRunner
from wandb_files import identities, logged, records, until

from analysis import wandb_report
from rods import tasks, tracking, tracking_copy
from rods.cli import app
from rods.config import from_mapping
from rods.exchange.heartbeat import Heartbeat
from rods.exchange.metrics import MetricsWriter
from rods.exchange.rundir import RunDir
from rods.tracking_artifacts import TrainTracker
from rods.tracking_copy import TrackingError
from rods.tracking_live import following

KEY = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """A run directory that is tracked offline, a home of its own, and a key that must not be found again."""
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = make_run(tmp_path / "runs", history(0.5), experiment="tiny", ablation="random_seeds", seed=7)
    run = RunDir.open(path)
    settings = yaml.safe_load(run.config_file.read_text())
    settings["tracking"] |= {"wandb": "offline", "project": "rods-test"}
    run.config_file.write_text(yaml.safe_dump(settings))
    return run, from_mapping(settings)


def synthesised(run, count, writer="synthesis"):
    metrics = MetricsWriter(run.metrics / f"{writer}.jsonl")
    for index in range(count):
        metrics.write({"time": float(index), "accepted": index, "errors": {"vm_exec_failed": 1}})
    metrics.close()


def contents(found):
    """Paths in each version of each artifact but the tables, which W&B stores as artifacts too."""
    return [
        (each.artifact.name, sorted(entry.path for entry in each.artifact.manifest.contents))
        for each in found
        if each.HasField("artifact") and each.artifact.type != "run_table"
    ]


def checkpointed(run, step):
    folder = run.checkpoints / f"step_{step:06d}-0001"
    folder.mkdir()
    (folder / "COMPLETE").touch()


def keys_in(folder):
    return [path for path in folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def test_all_attempts_of_a_role_are_one_run(offline):
    run, config = offline
    for step in (1, 2):
        with tracking.Tracker(run, "train", config) as tracker:
            tracker.log({"train": {"reward_mean": 0.5, "engine": "hf"}}, step)
    found = records(run.wandb)
    told = {
        (each.run.run_id, each.run.run_group, each.run.job_type, each.run.project, tuple(each.run.tags))
        for each in found
        if each.HasField("run")
    }
    assert told == {(f"{run.name}-train", run.name, "train", "rods-test", ("tiny", "random_seeds", "seed 7"))}
    assert logged(found, "train/reward_mean") == [(1, 0.5), (2, 0.5)]
    assert keys_in(run.path) == []


def test_a_moved_run_goes_on_with_the_id_it_began_with(offline, tmp_path):
    run, _ = offline
    first = tracking.identity(run, "train")
    moved = RunDir(run.path.rename(tmp_path / "moved"))
    assert tracking.identity(moved, "train") == first
    assert tracking.identity(moved, "synthesis") == "moved-synthesis"


def test_long_names_are_cut_to_what_a_tag_may_be(offline):
    _, config = offline
    assert tracking.tags(config) == ("tiny", "random_seeds", "seed 7")
    long = from_mapping(config.to_dict() | {"experiment": "x" * 90, "ablation": ""})
    assert tracking.tags(long) == ("x" * 64, "seed 7")


def test_tables_hold_seeds_and_variants(offline):
    run, _ = offline
    assert tracking_copy.seeds(run) == [["1-a", "a", "a", "base", 1, 1, 0.5, 1.0]]
    ((key, parent, *_, status, reason, attempts, distance),) = tracking_copy.variants(run)
    assert (key, parent, status, reason, attempts, distance) == ("1-a", "a", "published", "", 1, None)


def test_synthesis_is_followed_while_it_works_and_over_attempts(offline):
    run, config = offline
    synthesised(run, 2)
    with following(run, "synthesis", config, every_s=0.01):
        until(lambda: (run.wandb / "copied-synthesis.json").exists())
        synthesised(run, 1)
    with following(run, "synthesis", config):
        synthesised(run, 1)
    found = records(run.wandb)
    assert identities(found) == {(f"{run.name}-synthesis", run.name, "synthesis")}
    assert logged(found, "synthesis/accepted") == [(0, 0), (1, 1), (2, 0), (4, 0)]
    assert [value for _, value in logged(found, "synthesis/errors/vm_exec_failed")] == [1] * 4
    assert logged(found, "seeds/nrows") == logged(found, "variants/nrows") == [(3, 1)]
    tables = [json.loads(path.read_text()) for path in run.wandb.rglob("*.table.json")]
    assert sorted(table["columns"][0] for table in tables) == ["id", "key"]
    assert keys_in(run.path) == []


def test_a_second_daemon_has_a_run_of_its_own_without_the_tables(offline):
    run, config = offline
    synthesised(run, 1, "synthesis-1")
    with following(run, "synthesis-1", config):
        pass
    found = records(run.wandb)
    assert identities(found) == {(f"{run.name}-synthesis-1", run.name, "synthesis")}
    assert logged(found, "synthesis/accepted") == [(0, 0)]
    assert logged(found, "seeds/nrows") == []


def test_a_line_after_the_tables_is_not_too_late(offline):
    run, config = offline
    synthesised(run, 1)
    copy = tracking_copy.Copy(run, "synthesis")
    with tracking.Tracker(run, "synthesis", config) as tracker:
        copy.metrics(tracker)
        copy.tables(tracker)
        synthesised(run, 2)
        assert copy.metrics(tracker) == 2
        assert not copy.behind
    assert [step for step, _ in logged(records(run.wandb), "synthesis/accepted")] == [0, 2, 3]


def test_half_a_line_is_copied_when_it_is_whole(offline):
    run, config = offline
    synthesised(run, 1)
    file = run.metrics / "synthesis.jsonl"
    with file.open("a") as half:
        half.write('{"accepted":')
    assert tracking_copy.catch_up(run, config).lines == 1
    with file.open("a") as rest:
        rest.write("9}\n")
    assert tracking_copy.catch_up(run, config).lines == 1
    assert logged(records(run.wandb), "synthesis/accepted") == [(0, 0), (2, 9)]


def test_a_broken_wandb_costs_synthesis_nothing_and_is_caught_up_with(offline, capfd):
    run, config = offline
    synthesised(run, 2)
    run.wandb.mkdir(exist_ok=True)
    (run.wandb / "synthesis.id").mkdir()
    with following(run, "synthesis", config):
        worked = True
    assert worked
    assert "the run goes on" in capfd.readouterr().err
    with pytest.raises(TrackingError, match="expected to write an offline W&B run there"):
        tracking_copy.catch_up(run, config)
    (run.wandb / "synthesis.id").rmdir()
    assert tracking_copy.catch_up(run, config) == tracking_copy.Copied(2, ())
    assert len(logged(records(run.wandb), "synthesis/accepted")) == 2


def test_nothing_is_followed_where_tracking_is_disabled_and_all_of_it_can_be_copied_later(offline):
    run, config = offline
    disabled = replace(config, tracking=replace(config.tracking, wandb="disabled"))
    synthesised(run, 2)
    with following(run, "synthesis", disabled):
        pass
    assert not list(run.wandb.rglob("*.wandb"))
    assert tracking_copy.catch_up(run, disabled).lines == 2


def test_the_trainer_logs_artifacts_when_there_are_others(offline):
    run, config = offline
    variant = tasks.load(config.tasks).train[0].to_json()
    run.expanded_file(1).write_text(json.dumps(variant) + "\n")
    run.expanded_file(2).write_text("")
    (run.checkpoints / "step_000004-0001").mkdir()
    with TrainTracker(run, config) as tracker:
        tracker.log({"train": {"reward_mean": 0.5}}, 1)
        tracker.log({"train": {"reward_mean": 0.5}}, 2)
        checkpointed(run, 2)
        tracker.log({"train": {"reward_mean": 0.5}}, 3)
        checkpointed(run, 3)
    expanded, checkpoints = f"{run.name}-expanded", f"{run.name}-checkpoints"
    first, second = "step_000002-0001/COMPLETE", "step_000003-0001/COMPLETE"
    found = records(run.wandb)
    assert contents(found) == [
        (expanded, ["expanded_epoch_0001.jsonl"]),
        (checkpoints, [first]),
        (checkpoints, [first, second]),
    ]
    assert identities(found) == {(f"{run.name}-train", run.name, "train")}
    with TrainTracker(run, config) as tracker:
        tracker.log({"train": {"reward_mean": 0.5}}, 4)
    assert len(contents(records(run.wandb))) == 3


def test_a_forgotten_or_damaged_note_of_artifacts_has_them_copied_again(offline):
    run, config = offline
    checkpointed(run, 2)
    (run.wandb / "artifacts.json").write_text("{")
    tracking_copy.catch_up(run, config)
    assert len(contents(records(run.wandb))) == 1


def test_a_role_that_died_without_a_last_word_is_not_waited_for(offline):
    run, config = offline
    synthesised(run, 3)
    dying = "import sys; from pathlib import Path; from rods.exchange.heartbeat import Heartbeat; "
    beat = "Heartbeat(Path(sys.argv[1]), 'synthesis').beat('working')"
    subprocess.run([sys.executable, "-c", dying + beat, str(run.heartbeats)], check=True)
    assert tracking_copy.catch_up(run, config) == tracking_copy.Copied(3, ())


def test_the_command_copies_what_no_live_role_copies_and_does_it_once(offline):
    run, config = offline
    synthesised(run, 3)
    synthesised(run, 2, "synthesis-1")
    checkpointed(run, 2)
    Heartbeat(run.heartbeats, "synthesis-1").beat("working")
    assert tracking_copy.catch_up(run, config) == tracking_copy.Copied(3, ("synthesis-1",))
    Heartbeat(run.heartbeats, "synthesis-1").finish()
    assert tracking_copy.catch_up(run, config) == tracking_copy.Copied(2, ())
    assert tracking_copy.catch_up(run, config) == tracking_copy.Copied(0, ())
    assert len(tracking_copy.offline_runs(run)) == 3
    found = records(run.wandb)
    assert {job for _, _, job in identities(found)} == {"synthesis", "train"}
    assert len(logged(found, "synthesis/accepted")) == 5
    assert contents(found) == [(f"{run.name}-checkpoints", ["step_000002-0001/COMPLETE"])]


def test_what_a_live_role_still_writes_is_not_uploaded(offline):
    run, _ = offline
    for name in (
        f"20260101_000000-{run.name}-train",
        f"20260102_000000-{run.name}-train",
        "20260101_000000-x",
    ):
        (run.wandb / "wandb" / f"offline-run-{name}").mkdir(parents=True)
    left = [folder.name for folder in tracking_copy.offline_runs(run, ["train"])]
    assert left == [f"offline-run-20260101_000000-{run.name}-train", "offline-run-20260101_000000-x"]


@pytest.mark.parametrize("text", ["[]", "{", '{"step": -1}', '{"size": "3"}'])
def test_how_far_the_copy_has_come_must_be_readable(offline, text):
    run, config = offline
    synthesised(run, 1)
    run.wandb.mkdir(exist_ok=True)
    (run.wandb / "copied-synthesis.json").write_text(text)
    with pytest.raises(TrackingError, match=r"copied-synthesis\.json: expected how far"):
        tracking_copy.catch_up(run, config)


def test_an_upload_that_is_refused_says_what_to_do(offline, monkeypatch):
    run, _ = offline
    monkeypatch.delenv("WANDB_API_KEY")
    assert tracking_copy.upload(run) == 0
    folder = run.wandb / "wandb" / "offline-run-20260101_000000-x"
    folder.mkdir(parents=True)
    (folder / "run-x.wandb").write_bytes(b"")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    with pytest.raises(TrackingError, match="Log in"):
        tracking_copy.upload(run)
    (folder / "run-x.wandb.synced").touch()
    assert tracking_copy.upload(run) == 0


def test_the_dry_run_of_a_report_is_a_specification_without_a_login(offline, tmp_path, monkeypatch):
    run, _ = offline
    monkeypatch.delenv("WANDB_API_KEY")
    other = make_run(tmp_path / "runs", history(0.5), experiment="tiny")
    file = tmp_path / "report.json"
    arguments = ["wandb-report", str(run.path), str(other), "--title", "T", "--dry-run", str(file)]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    found = json.loads(file.read_text())
    assert (found["displayName"], found["project"]["name"]) == ("T", "rods-test")
    (grid,) = (block for block in found["spec"]["blocks"] if block["type"] == "panel-grid")
    sets = {each["name"]: each["filters"]["filters"][0]["value"] for each in grid["metadata"]["runSets"]}
    assert sets == {"tiny + random_seeds": [run.name], "tiny": [Path(other).name]}
    shown = {
        panel["config"].get("chartTitle") for panel in grid["metadata"]["panelBankSectionConfig"]["panels"]
    }
    assert {title for title, _ in wandb_report.PANELS} <= shown
    plain = json.dumps(grid)
    for name in ("evaluation/heldout/greedy/mean", "synthesis/errors/vm_exec_failed", *wandb_report.TABLES):
        assert name in plain
