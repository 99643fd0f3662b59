"""`rods scale`: what is submitted for how many more daemons, and which runs cannot have more.

The real submission against stand-ins for Slurm's commands.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from launchers import jobs, trainers
from launchers.errors import LaunchError
from launchers.identity import plain
from launchers.jobs import SubmittedJob
from launchers.scale import scale
from launchers.trainers import Trainer
from rods.cli import app
from rods.config import from_mapping
from rods.exchange import owner, stop
from rods.exchange.owner import OwnedError
from rods.exchange.rundir import RunDir


def made(folder: Path, coschedule: str = "pair", kind: str = "slurm", enabled: bool = True) -> RunDir:
    """A submitted run with two synthesis nodes."""
    cluster = {"kind": kind, "coschedule": coschedule, "synthesis": {"nodes": 2, "gpus_per_node": 4}}
    config = from_mapping({"cluster": cluster, "synthesis": {"enabled": enabled}})
    run = RunDir.create(folder, "x", "0" * 64)
    run.config_file.write_text(yaml.safe_dump(plain(config)))
    run.next_attempt()
    jobs.record(run, SubmittedJob("7", ("train", "synthesis"), coschedule, 1, 0.0, {}))
    return run


@pytest.fixture
def sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which a stand-in for sbatch notes its calls; it refuses the third."""
    folder = tmp_path / "bin"
    folder.mkdir()
    calls = folder / "calls"
    body = (
        f'echo "$@" >>{calls}; n=$(wc -l <{calls}); [ "$n" -lt 3 ] && echo "Submitted batch job $((100 + n))"'
    )
    for name, text in {"srun": "exit 1", "sbatch": body}.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    answer(monkeypatch, Trainer.running)
    return calls


def answer(monkeypatch: pytest.MonkeyPatch, state: Trainer) -> None:
    """Let Slurm say this of the run's trainer."""
    monkeypatch.setattr("launchers.scale.ask", lambda _run: (state, "7"))


@pytest.mark.parametrize("coschedule", ["pair", "het"])
def test_daemons_get_the_numbers_that_none_has_had(tmp_path: Path, sbatch: Path, coschedule: str) -> None:
    run = made(tmp_path, coschedule)
    first, second = scale(run, 2)
    assert [first.replica, second.replica] == [2, 3]
    assert (first.job_id, first.roles, first.gpus) == ("101", ("synthesis",), {"synthesis": 4})
    assert jobs.read(run)[1:] == [first, second]
    files = [run.attempt_dir(1) / f"synthesis-{number}.sbatch" for number in (2, 3)]
    assert sbatch.read_text().splitlines() == [str(file) for file in files]
    text = files[1].read_text()
    assert "RODS_SERIES=synthesis-3" in text
    assert "RODS_REPLICA=$((SLURM_NODEID+3))" in text
    assert "#SBATCH --nodes=1\n" in text
    assert "#SBATCH --gpus-per-node=4\n" in text


def test_a_second_call_goes_on_counting(tmp_path: Path, sbatch: Path) -> None:
    run = made(tmp_path)
    assert [job.replica for _ in range(2) for job in scale(run, 1)] == [2, 3]


def test_those_taken_before_a_refusal_are_kept_and_listed(tmp_path: Path, sbatch: Path) -> None:
    run = made(tmp_path)
    with pytest.raises(LaunchError, match="sbatch refused"):
        scale(run, 4)
    assert [job.replica for job in jobs.read(run)[1:]] == [2, 3]


def test_a_daemon_that_cannot_be_listed_is_cancelled(tmp_path: Path, sbatch: Path) -> None:
    run = made(tmp_path)
    listed = jobs.file_of(run)
    (sbatch.parent / "sbatch").write_text(
        f'#!/bin/bash\nmv "{listed}" "{listed}.away"; mkdir "{listed}"; echo "Submitted batch job 101"\n'
    )
    (sbatch.parent / "scancel").write_text(f'#!/bin/bash\necho "$@" >{sbatch.parent}/cancelled\n')
    (sbatch.parent / "scancel").chmod(0o755)
    with pytest.raises(LaunchError, match=r"jobs\.jsonl.*; cancelled, .* 101"):
        scale(run, 1)
    assert (sbatch.parent / "cancelled").read_text() == "101\n"


def test_a_trainer_that_waits_is_waited_for_by_slurm(
    tmp_path: Path, sbatch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, Trainer.waiting)
    scale(made(tmp_path), 1)
    assert "--dependency=after:7" in sbatch.read_text()


def test_without_a_trainer_nothing_is_submitted(
    tmp_path: Path, sbatch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, Trainer.over)
    with pytest.raises(LaunchError, match="rods resume"):
        scale(made(tmp_path), 1)
    assert not sbatch.exists()


def test_what_cannot_grow_is_refused(tmp_path: Path, sbatch: Path) -> None:
    with pytest.raises(LaunchError, match=r"found cluster\.kind = local"):
        scale(made(tmp_path, kind="local"), 1)
    with pytest.raises(LaunchError, match=r"synthesis\.enabled = false"):
        scale(made(tmp_path, enabled=False), 1)
    run = made(tmp_path)
    stop.finish(run, 1)
    with pytest.raises(LaunchError, match="found one that has finished"):
        scale(run, 1)
    assert not sbatch.exists()


@pytest.mark.parametrize("count", [0, -1, 101])
def test_a_count_that_cannot_be_meant_is_refused(tmp_path: Path, sbatch: Path, count: int) -> None:
    with pytest.raises(LaunchError, match="expected a number from 1 to 100"):
        scale(made(tmp_path), count)


def test_two_do_not_submit_for_one_run(tmp_path: Path, sbatch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made(tmp_path)
    owner.take(run, 300)
    with pytest.raises(OwnedError):
        scale(run, 1)
    owner.release(run)
    scale(run, 1)


def test_the_command_says_what_was_submitted(tmp_path: Path, sbatch: Path) -> None:
    run = made(tmp_path)
    done = CliRunner().invoke(app, ["scale", str(run.path)])
    assert (done.exit_code, done.stdout) == (0, "submitted job 101: synthesis daemon 2\n")
    done = CliRunner().invoke(app, ["scale", str(run.path), "--json"])
    assert json.loads(done.stdout) == [{"job_id": "102", "replica": 3}]


def test_the_trainers_are_asked_of_by_their_own_jobs(tmp_path: Path) -> None:
    """The question itself is in test_launch_rendezvous; here: a run with no job has no trainer."""
    assert trainers.ask(RunDir.create(tmp_path, "x", "0" * 64)) == (Trainer.over, "")
