"""`rods resume`: the experiment as it was frozen, launched as a person wants it now, and never twice."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from slurm_answers import FakeSlurm
from typer.testing import CliRunner
from watch_examples import submitted

from launchers import queued, snapshot
from launchers.errors import LaunchError
from launchers.identity import config_hash
from launchers.scheduler import Scheduler
from rods.cli import app
from rods.config import Config, ConfigError, LaunchMode
from rods.config.compose import compose
from rods.exchange.rundir import RunDir
from rods.roles import resuming


@pytest.fixture(scope="module")
def tiny() -> Config:
    """The tiny experiment on the private cluster, as somebody launched it."""
    return compose(["+experiment=rods_tiny", "cluster=slurm_test", "seed=17"])


def frozen(tmp_path: Path, config: Config) -> RunDir:
    """A run of it, with its configuration frozen."""
    run = RunDir.create(tmp_path, "tiny", config_hash(config))
    snapshot.freeze_config(run, config)
    return run


def test_the_experiment_is_the_frozen_one_from_any_folder(
    tmp_path: Path, tiny: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = frozen(tmp_path, tiny)
    monkeypatch.chdir("/")
    config = resuming.configuration(run, [])
    assert config.launch.resume == str(run.path)
    assert (config.seed, config.cluster) == (17, tiny.cluster)
    assert config_hash(config) == config_hash(tiny)


def test_how_it_is_launched_may_change(tmp_path: Path, tiny: Config) -> None:
    overrides = [
        "cluster.time_hours=2.5",
        "cluster.extra.constraint=ib",
        "launch.mode=plan",
        "tracking.project=x",
    ]
    config = resuming.configuration(frozen(tmp_path, tiny), overrides)
    assert (config.cluster.time_hours, config.cluster.extra["constraint"]) == (2.5, "ib")
    assert (config.launch.mode, config.tracking.project) == (LaunchMode.plan, "x")


def test_texts_that_look_like_numbers_stay_as_they_were_typed(tmp_path: Path, tiny: Config) -> None:
    overrides = [
        "cluster.account=0042",
        "cluster.qos=1e3",
        "cluster.partition=",
        "cluster.extra.licenses=007",
        "cluster.setup=[module load 010, '0x1']",
        "cluster.train.nodes=1",
        "cluster.time_hours=1e1",
    ]
    cluster = resuming.configuration(frozen(tmp_path, tiny), overrides).cluster
    assert (cluster.account, cluster.qos, cluster.partition) == ("0042", "1e3", "")
    assert (cluster.extra["licenses"], list(cluster.setup)) == ("007", ["module load 010", "0x1"])
    assert (cluster.train.nodes, cluster.time_hours) == (1, 10.0)


def test_what_slurm_refuses_leaves_the_frozen_configuration_as_it_was(
    tmp_path: Path, tiny: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = frozen(tmp_path, tiny)
    monkeypatch.setattr(snapshot, "verify", snapshot.load_config)
    for name in ("srun", "squeue", "sbatch"):
        tool = tmp_path / "bin" / name
        tool.parent.mkdir(exist_ok=True)
        tool.write_text("#!/bin/sh\necho 'sbatch: error: invalid partition specified' >&2; exit 1\n")
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=os.pathsep)
    before = (run.path / "config.yaml").read_text()
    with pytest.raises(LaunchError, match="invalid partition"):
        resuming.resume(run, ["cluster.partition=typo"])
    assert (run.path / "config.yaml").read_text() == before
    assert snapshot.load_config(run) == tiny
    resuming.configuration(run, [])


def test_a_profile_is_taken_whole_and_single_values_on_top(tmp_path: Path, tiny: Config) -> None:
    config = resuming.configuration(
        frozen(tmp_path, tiny), ["cluster.signal_seconds=77", "cluster=slurm_a100"]
    )
    assert (config.cluster.gpu_type, config.cluster.signal_seconds) == ("a100", 77)
    assert config.seed == 17


def test_of_the_cluster_before_no_option_stays(tmp_path: Path, tiny: Config) -> None:
    before = replace(tiny.cluster, extra={"constraint": "old-rack"}, setup=("module load old",))
    run = frozen(tmp_path, replace(tiny, cluster=before))
    config = resuming.configuration(run, ["cluster=slurm_h100", "cluster.extra.reservation=x"])
    assert config.cluster.extra == {"reservation": "x"}
    assert "module load old" not in config.cluster.setup


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("training.epochs=9", "is the experiment and stays"),
        ("seed=1", "is the experiment and stays"),
        ("launch.resume=runs/other", "expected KEY=VALUE with a key of"),
        ("cluster.partition", "expected KEY=VALUE"),
        ("+cluster.x=1", "expected KEY=VALUE"),
        ("cluster.nodes=3", "nodes"),
        ("cluster.time_hours=long", "time_hours"),
        ("cluster.setup=[a", "flow sequence"),
        ("cluster.time_hours=-1", "time_hours"),
        ("cluster=nowhere", "nowhere"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(
    tmp_path: Path, tiny: Config, override: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        resuming.configuration(frozen(tmp_path, tiny), [override])


@pytest.mark.parametrize("job", ["5", "6"])
def test_a_run_with_a_job_in_the_queue_is_not_started_twice(tmp_path: Path, tiny: Config, job: str) -> None:
    run = frozen(tmp_path, tiny)
    submitted(run, "3", "train")
    submitted(run, job, "train")
    with pytest.raises(LaunchError, match=f"found job {job}, which .*rods cancel"):
        queued.check_none(run, Scheduler(FakeSlurm()))


def test_jobs_that_are_over_or_that_nobody_can_be_asked_about_are_no_hindrance(
    tmp_path: Path, tiny: Config
) -> None:
    run = frozen(tmp_path, tiny)
    submitted(run, "3", "train")
    queued.check_none(run, Scheduler(FakeSlurm()))
    submitted(run, "6", "train")
    queued.check_none(run, Scheduler(FakeSlurm(None, None)))


def test_the_plan_is_shown_and_starts_nothing(tmp_path: Path, tiny: Config) -> None:
    run = frozen(tmp_path, tiny)
    done = CliRunner().invoke(app, ["resume", str(run.path), "launch.mode=plan"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "#SBATCH hetjob" in done.stdout
    assert run.last_attempt() == 0


def test_json_is_all_there_is_on_standard_output(tmp_path: Path, tiny: Config) -> None:
    run = frozen(tmp_path, tiny)
    done = CliRunner().invoke(
        app, ["resume", str(run.path), "launch.mode=plan", "--json"], catch_exceptions=False
    )
    assert json.loads(done.stdout) == {"run": str(run.path), "attempt": 0, "jobs": [], "status": 0}
    assert "#SBATCH" in done.stderr
