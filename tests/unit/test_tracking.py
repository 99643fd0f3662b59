"""What W&B is given, read back from its offline files: identity over attempts, tables, artifacts, and no key."""

import json
import struct
from pathlib import Path

import pytest
import yaml
from analysis_examples import history, make_run
from typer.testing import CliRunner
from wandb.proto import wandb_internal_pb2

from rods import tasks, tracking, tracking_copy
from rods.cli import app
from rods.config import from_mapping
from rods.exchange.metrics import MetricsWriter
from rods.exchange.rundir import RunDir
from rods.tracking_copy import TrackingError

KEY = "0123456789abcdef0123456789abcdef01234567"


def records(folder):
    """The records of the offline runs below `folder`, oldest first: LevelDB's log format behind 7 bytes of header."""
    found = []
    for file in sorted(folder.rglob("*.wandb")):
        data, at, whole = file.read_bytes(), 7, b""
        while at + 7 <= len(data):
            if 32768 - at % 32768 < 7:
                at += 32768 - at % 32768
                continue
            size, kind = struct.unpack_from("<HB", data, at + 4)
            whole += data[at + 7 : at + 7 + size]
            at += 7 + size
            if kind in (1, 4):  # a whole record, or the last piece of one
                record = wandb_internal_pb2.Record()
                record.ParseFromString(whole)
                found.append(record)
                whole = b""
    return found


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


def synthesised(run, count):
    metrics = MetricsWriter(run.metrics / "synthesis.jsonl")
    for index in range(count):
        metrics.write({"time": float(index), "accepted": index, "errors": {"vm_exec_failed": 1}})
    metrics.close()


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
    items = [
        item.key or "/".join(item.nested_key)
        for each in found
        if each.HasField("history")
        for item in each.history.item
    ]
    assert items.count("train/reward_mean") == 2
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


def test_the_copy_holds_metrics_tables_and_artifacts_and_is_made_once(offline):
    run, config = offline
    synthesised(run, 3)
    variant = tasks.load(config.tasks).train[0].to_json()
    run.expanded_file(1).write_text(json.dumps(variant) + "\n")
    run.expanded_file(2).write_text("")
    (run.checkpoints / "step_000002-0001").mkdir()
    (run.checkpoints / "step_000002-0001" / "COMPLETE").touch()
    (run.checkpoints / "step_000004-0001").mkdir()
    assert tracking_copy.copy(run, config) == 3
    assert tracking_copy.copy(run, config) == 0
    assert len(tracking_copy.offline_runs(run)) == 1
    found = records(run.wandb)
    files = {
        each.artifact.name: sorted(entry.path for entry in each.artifact.manifest.contents)
        for each in found
        if each.HasField("artifact")
    }
    assert files[f"{run.name}-expanded"] == ["expanded_epoch_0001.jsonl"]
    assert files[f"{run.name}-checkpoints"] == ["step_000002-0001/COMPLETE"]
    items = [
        item.key or "/".join(item.nested_key)
        for each in found
        if each.HasField("history")
        for item in each.history.item
    ]
    assert items.count("synthesis/accepted") == 3
    assert items.count("synthesis/errors/vm_exec_failed") == 3
    tables = [json.loads(path.read_text()) for path in run.wandb.rglob("*.table.json")]
    assert sorted(table["columns"][0] for table in tables) == ["id", "key"]
    assert keys_in(run.path) == []


def test_what_was_copied_before_must_be_readable(offline):
    run, config = offline
    (run.wandb / "copied.json").write_text("[]")
    with pytest.raises(TrackingError, match=r"copied\.json: expected what was copied before"):
        tracking_copy.copy(run, config)


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
    shown = {panel["config"]["chartTitle"] for panel in grid["metadata"]["panelBankSectionConfig"]["panels"]}
    assert {"Training reward", "Held-out reward", "Zones"} <= shown
