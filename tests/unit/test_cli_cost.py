"""`rods cost`: one account a run, their sum, and where the figures come from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from slurm_answers import FakeSlurm
from typer.testing import CliRunner
from watch_examples import make_run, submitted

from launchers import scheduler
from launchers.scheduler import Scheduler
from rods.cli import app
from rods.exchange.atomic import CorruptFileError
from rods.exchange.rundir import RunDir
from rods.watch import spending
from rods.watch.render import spent


@pytest.fixture(autouse=True)
def slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorded answers instead of this machine's Slurm."""
    monkeypatch.setattr(scheduler, "HERE", Scheduler(FakeSlurm()))


def made(tmp_path: Path, job: str) -> RunDir:
    """A run with one job, planned for 56 h of 8 GPUs a role."""
    run = make_run(tmp_path)
    role = {"nodes": 1, "gpus_per_node": 8}
    cluster = {"kind": "slurm", "time_hours": 56, "train": role, "synthesis": role}
    run.config_file.write_text(yaml.safe_dump({"cluster": cluster, "synthesis": {"enabled": True}}))
    submitted(run, job, "train", "synthesis")
    return run


def local(run: RunDir, gpus: int) -> None:
    """Configure `run` for this machine, whose time limit counts for nothing."""
    role = {"nodes": 1, "gpus_per_node": gpus}
    cluster = {"kind": "local", "time_hours": 72, "train": role, "synthesis": role}
    run.config_file.write_text(yaml.safe_dump({"cluster": cluster, "synthesis": {"enabled": True}}))


def test_training_stands_beside_synthesis_as_in_the_paper(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["cost", str(made(tmp_path, "1").path)], catch_exceptions=False)
    assert done.exit_code == 0
    text = " ".join(done.stdout.split())
    assert "train 448.00" in text
    assert "together 896.00" in text
    assert "1 attempt; energy: not measured here; from Slurm's accounting" in text
    assert "the paper's run: 448 train + 448 synthesis GPU-hours" in text


def test_several_runs_are_summed(tmp_path: Path) -> None:
    runs = [str(made(tmp_path, job).path) for job in ("3", "4")]
    done = CliRunner().invoke(app, ["cost", *runs], catch_exceptions=False)
    assert "2 runs together: 1792.00 planned" in done.stdout


def test_the_accounts_as_json(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["cost", str(made(tmp_path, "1").path), "--json"], catch_exceptions=False)
    (account,) = json.loads(done.stdout)
    assert account["roles"]["synthesis"]["used"] == pytest.approx(8 * 5 / 3600)
    assert account["paper"] == {"train": 448, "synthesis": 448}


def test_what_it_cannot_read_is_named(tmp_path: Path) -> None:
    run = made(tmp_path, "1")
    run.config_file.write_text("cluster: 3\n")
    with pytest.raises(CorruptFileError, match=r"config\.yaml"):
        CliRunner().invoke(app, ["cost", str(run.path)], catch_exceptions=False)


def test_a_run_without_gpus_says_so_and_has_no_table_of_zeros(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    local(run, gpus=0)
    done = CliRunner().invoke(app, ["cost", str(run.path)], catch_exceptions=False)
    assert f"{run.name}: no GPUs" in done.stdout
    assert "0.00" not in done.stdout


def test_a_run_on_this_machine_has_no_planned_hours(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    local(run, gpus=2)
    done = CliRunner().invoke(app, ["cost", str(run.path), str(run.path)], catch_exceptions=False)
    (role,) = {" ".join(line.split()[:3]) for line in done.stdout.splitlines() if line.startswith("train")}
    assert role == "train no limit"
    assert "2 runs together:" in done.stdout
    assert "planned" not in done.stdout.splitlines()[-2]
    beside = [str(made(tmp_path / "slurm", "3").path), str(run.path)]
    done = CliRunner().invoke(app, ["cost", *beside], catch_exceptions=False)
    assert "2 runs together: 896.00 planned by the 1 that have a limit" in done.stdout


def test_gpu_hours_of_a_run_that_went_on_here_are_still_told(tmp_path: Path) -> None:
    run = made(tmp_path, "1")
    local(run, gpus=0)
    done = CliRunner().invoke(app, ["cost", str(run.path)], catch_exceptions=False)
    assert "no GPUs" not in done.stdout
    assert "no GPUs" not in spent(spending.read(run))
